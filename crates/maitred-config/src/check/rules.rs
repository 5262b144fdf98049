//! Checks of `routes[].rules` and `tasks.types`: what calls have to meet.

use std::collections::BTreeSet;
use std::sync::Arc;

use maitred_route::{Choice, Condition, Days, Offset, OutOfReach, Route, Rule, Schedule, TaskType, TaskTypes};
use maitred_types::TokenCount;

use super::routes::{Chooser, Table};
use super::{Checker, access};
use crate::diagnostic::{listed, near_miss};
use crate::forms::{HoursText, Name, OffsetText, ValueText};
use crate::path::Path;
use crate::raw;

/// What the file says of who may call, and of what it costs.
pub(super) struct Known<'f> {
    tenants: Option<Vec<&'f str>>,
    users: Option<Vec<&'f str>>,
    classes: Vec<&'f str>,
    has_groups: bool,
    has_tokens: bool,
    pub(super) has_prices: bool,
}

impl<'f> Known<'f> {
    pub(super) fn of(file: &'f raw::File) -> Self {
        let issuers = &file.auth.issuers;
        Self {
            tenants: access::tenants(file),
            users: access::users(file),
            classes: file.classes.iter().map(|class| class.name.as_str()).collect(),
            has_groups: issuers.iter().any(|issuer| issuer.claims.groups.is_some()),
            has_tokens: !issuers.is_empty(),
            has_prices: !file.prices.is_empty(),
        }
    }
}

impl Checker<'_> {
    pub(super) fn rules(
        &mut self,
        rules: &[raw::Rule],
        (table, known): (&Table, &Known<'_>),
        path: &Path,
    ) -> Option<Vec<Rule>> {
        let names = rules.iter().enumerate();
        self.unique(
            "rule",
            names.map(|(index, rule)| (rule.name.as_str(), path.index(index).key("name"))),
        );
        let mut checked = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let path = path.index(index);
            let when = path.key("when");
            self.callers(&rule.when, known, &when);
            self.range(rule.when.input_tokens, &when.key("input_tokens"));
            let then = self.choice(&Chooser::of_rule(rule), (table, known), &path);
            if let Some(then) = &then {
                self.windows((rule, then), table, &path);
            }
            checked.push(then.map(|then| Rule {
                name: text(&rule.name),
                versions: rule.when.version.iter().map(text).collect(),
                when: conditions(&rule.when),
                then,
            }));
        }
        checked.into_iter().collect()
    }

    /// A rule for somebody who does not exist is for nobody; most likely the name is mistyped.
    fn callers(&mut self, when: &raw::When, known: &Known<'_>, path: &Path) {
        self.known(
            "tenant",
            (&when.tenants, known.tenants.as_deref()),
            &path.key("tenants"),
        );
        self.known("user", (&when.users, known.users.as_deref()), &path.key("users"));
        if !self.is_broken(&Path::top("classes")) {
            self.known("class", (&when.classes, Some(&known.classes)), &path.key("classes"));
        }
        if !when.groups.is_empty() && !known.has_groups && !self.is_broken(&Path::top("auth")) {
            self.error(
                &path.key("groups"),
                "nobody is in a group, so this rule is for no call",
                "name in `auth.issuers[].claims.groups` the claim that lists the groups of a user",
            );
        }
        if !when.claims.is_empty() && !known.has_tokens && !self.is_broken(&Path::top("auth")) {
            self.error(
                &path.key("claims"),
                "nobody shows a token, so this rule is for no call",
                "add `auth.issuers`, or tell calls apart by `tenants`, `users` or `headers`",
            );
        }
        if when.zone.is_some() && when.hours.is_none() && when.days.is_empty() {
            self.error(
                &path.key("zone"),
                "there are neither hours nor days that this clock could be for",
                "add `hours` or `days`, or leave it out",
            );
        }
    }

    fn known(&mut self, what: &str, (names, known): (&[Name], Option<&[&str]>), path: &Path) {
        let Some(known) = known else { return };
        for (index, name) in names.iter().enumerate() {
            if known.contains(&name.as_str()) {
                continue;
            }
            let help = match near_miss(name.as_str(), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => format!("no key has a {what}"),
                None => format!(
                    "known here: {}",
                    listed(known.iter().copied().collect::<BTreeSet<_>>(), "and")
                ),
            };
            self.error(
                &path.index(index),
                format!("there is no {what} `{name}`, so no call is one of its"),
                help,
            );
        }
    }

    fn range(&mut self, range: Option<raw::TokenRange>, path: &Path) {
        let Some(range) = range else { return };
        match (range.at_least, range.below) {
            (None, None) => self.error(path, "this asks nothing", "add `at_least` or `below`, or leave it out"),
            (at_least, Some(below)) if range.is_empty() => self.error(
                path,
                format!("no number is at least {} and below {below}", at_least.unwrap_or(0)),
                "the second must be larger than the first",
            ),
            _ => {}
        }
    }

    /// A rule that lets longer calls through than its target can take sends them there to fail.
    fn windows(&mut self, (rule, then): (&raw::Rule, &Choice), table: &Table, path: &Path) {
        let Some(range) = rule.when.input_tokens else { return };
        // Without an upper bound nobody has said how long calls may be; that they begin beyond the window is still a mistake.
        let longest = range.below.map(|below| below.saturating_sub(1)).or(range.at_least);
        let Some(longest) = longest else { return };
        for (index, share) in then.targets.iter().enumerate() {
            let offer = table.offers.get(usize::from(share.target.0));
            let Some(context) = offer.and_then(|offer| offer.carries.context) else {
                continue;
            };
            if longest > context.get() {
                self.warn(
                    &path.key("targets").index(index),
                    format!("the rule lets calls of {longest} tokens through, and this model can take {context}"),
                    "lower `input_tokens.below`, or add a rule before it that sends longer calls elsewhere",
                );
            }
        }
    }

    /// What earlier rules leave nothing for.
    pub(super) fn out_of_reach(&mut self, route: &raw::Route, checked: &Route, path: &Path) {
        for OutOfReach { rule, taken_by } in checked.out_of_reach() {
            let takers: Vec<&str> = taken_by
                .iter()
                .filter_map(|place| route.rules.get(*place))
                .map(|rule| rule.name.as_str())
                .collect();
            let by = match takers.as_slice() {
                [one] => format!("the rule `{one}` takes all of its calls"),
                several => format!(
                    "the rules {} together take all of its calls",
                    listed(several.iter().copied(), "and")
                ),
            };
            match rule {
                Some(place) if takers.is_empty() => self.contradiction(route, place, path),
                Some(place) => self.warn(
                    &path.key("rules").index(place),
                    format!("no call gets here: {by}"),
                    "put it before, ask more of what is before it, or leave it out",
                ),
                None if route.targets.is_empty() => {}
                None => self.warn(
                    &path.key("targets"),
                    format!("no call gets here: {}", by.replace("all of its calls", "every call")),
                    "ask more of the rules, or leave `targets` out of them",
                ),
            }
        }
    }

    fn contradiction(&mut self, route: &raw::Route, place: usize, path: &Path) {
        let range = route.rules.get(place).and_then(|rule| rule.when.input_tokens);
        if range.is_some_and(|range| range.is_empty()) {
            // It has been said already.
            return;
        }
        self.error(
            &path.key("rules").index(place).key("when"),
            "no call can meet all of this",
            "take out the conditions that contradict each other",
        );
    }

    pub(super) fn task_types(&mut self, tasks: &raw::Tasks) -> TaskTypes {
        let path = Path::top("tasks").key("types");
        let names = tasks.types.iter().enumerate();
        self.unique(
            "type of task",
            names.map(|(index, kind)| (kind.name.as_str(), path.index(index).key("name"))),
        );
        let mut types = Vec::new();
        for (index, kind) in tasks.types.iter().enumerate() {
            let at = path.index(index).key("when");
            self.range(kind.when.input_tokens, &at.key("input_tokens"));
            let when = shape(&kind.when);
            if when.is_empty() {
                self.error(
                    &at,
                    "every call is of this type",
                    "say what a call of this type has to have",
                );
            }
            types.push(TaskType {
                name: text(&kind.name),
                when,
            });
        }
        TaskTypes {
            header: tasks.type_header.as_str().to_ascii_lowercase().into(),
            types,
        }
    }
}

/// What a rule asks beside the version.
fn conditions(when: &raw::When) -> Vec<Condition> {
    let names = |names: &[Name]| names.iter().map(text).collect::<Vec<_>>();
    let lists = [
        Condition::Tenant(names(&when.tenants)),
        Condition::User(names(&when.users)),
        Condition::Group(names(&when.groups)),
        Condition::Class(names(&when.classes)),
        Condition::Task(names(&when.task)),
    ];
    // A list that is not written asks nothing.
    let lists = lists.into_iter().filter(|condition| !condition.is_impossible());
    let values = |values: &[ValueText]| values.iter().map(|value| Arc::from(value.as_str())).collect();
    let headers = when.headers.iter();
    let headers =
        headers.map(|header| Condition::Header(header.name.as_str().to_ascii_lowercase().into(), values(&header.is)));
    let claims = when.claims.iter();
    let claims = claims.map(|claim| Condition::Claim(claim.name.to_string().into(), values(&claim.is)));
    let shape = shape(&raw::TaskShape {
        input_tokens: when.input_tokens,
        tools: when.tools,
        images: when.images,
        json_schema: when.json_schema,
        stream: when.stream,
    });
    lists
        .chain(shape)
        .chain(headers)
        .chain(claims)
        .chain(schedule(when).map(Condition::Time))
        .collect()
}

fn shape(shape: &raw::TaskShape) -> Vec<Condition> {
    let range = shape.input_tokens.map(|range| Condition::InputTokens {
        at_least: TokenCount::new(range.at_least.unwrap_or(0)),
        below: range.below.map(TokenCount::new),
    });
    let flags = [
        shape.tools.map(Condition::Tools),
        shape.images.map(Condition::Images),
        shape.json_schema.map(Condition::JsonSchema),
        shape.stream.map(Condition::Stream),
    ];
    range.into_iter().chain(flags.into_iter().flatten()).collect()
}

fn schedule(when: &raw::When) -> Option<Schedule> {
    if when.hours.is_none() && when.days.is_empty() {
        return None;
    }
    let days = match when.days.as_slice() {
        [] => Days::ALL,
        days => Days::of(days.iter().map(|day| *day as u8)),
    };
    Some(Schedule {
        hours: when.hours.map(HoursText::get),
        days,
        offset: when.zone.map_or_else(Offset::default, OffsetText::get),
    })
}

fn text(name: &Name) -> Arc<str> {
    Arc::from(name.as_str())
}
