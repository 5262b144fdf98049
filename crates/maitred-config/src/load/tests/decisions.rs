//! What is said of mistakes about decisions and shadows.

use super::golden::{errors, with};

#[test]
fn shadow_profiles() {
    let shadow = "    shadow: { profiles: [round-robin, rond-robin, default, round-robin], share: 0% }";
    insta::assert_snapshot!(errors(&with(shadow)), @"
    error: there is no profile `rond-robin`
     --> maitred.yaml:8:39 (pools[0].shadow.profiles[1])
      |
    8 |     shadow: { profiles: [round-robin, rond-robin, default, round-robin], share: 0% }
      |                                       ^^^^^^^^^^
      = help: did you mean `round-robin`?
              profiles: `default`, `least-request`, `round-robin` and `scored`

    warning: `default` is the profile that the pool chooses by, so the two differ by chance alone
     --> maitred.yaml:8:51 (pools[0].shadow.profiles[2])
      |
    8 |     shadow: { profiles: [round-robin, rond-robin, default, round-robin], share: 0% }
      |                                                   ^^^^^^^
      = help: name another profile, or none

    error: the shadow profile `round-robin` is already in line 8
     --> maitred.yaml:8:60 (pools[0].shadow.profiles[3])
      |
    8 |     shadow: { profiles: [round-robin, rond-robin, default, round-robin], share: 0% }
      |                                                            ^^^^^^^^^^^
      = help: each shadow profile may occur once

    warning: the shadow profiles look at no ask
     --> maitred.yaml:8:81 (pools[0].shadow.share)
      |
    8 |     shadow: { profiles: [round-robin, rond-robin, default, round-robin], share: 0% }
      |                                                                                 ^^
      = help: write a share above 0%, or name no profiles
    ");
}

#[test]
fn a_ring_of_decisions_that_holds_nothing() {
    insta::assert_snapshot!(errors(&with("decisions: { size: 1KiB }")), @"
    error: 1KiB is too small to be useful
     --> maitred.yaml:8:20 (decisions.size)
      |
    8 | decisions: { size: 1KiB }
      |                    ^^^^
      = help: write at least 64KiB
    ");
}
