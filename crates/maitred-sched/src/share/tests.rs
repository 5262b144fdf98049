use maitred_types::PromptChain;
use proptest::prelude::*;

use super::*;

fn message() -> ShareMessage {
    ShareMessage {
        loads: vec![SharedLoad {
            endpoint: 7,
            work: Work::of(100.0, 20.0),
            sequences: 3,
        }],
        prompts: vec![
            SharedPrompt {
                endpoint: 7,
                chain: PromptChain::new(vec![1, 2, 3], 64.5),
            },
            SharedPrompt {
                endpoint: 8,
                chain: PromptChain::new(Vec::new(), 16.0),
            },
        ],
    }
}

#[test]
fn a_message_comes_back_as_it_was() {
    for message in [message(), ShareMessage::default()] {
        assert_eq!(ShareMessage::read(&message.to_bytes()), Ok(message));
    }
}

#[test]
fn what_is_no_message_is_refused_with_the_reason() {
    let good = message().to_bytes();
    for end in 0..good.len() {
        assert_eq!(ShareMessage::read(&good[..end]), Err(ShareError::Short), "cut at {end}");
    }
    let with = |at: usize, bytes: &[u8]| {
        let mut spoilt = good.clone();
        spoilt[at..at + bytes.len()].copy_from_slice(bytes);
        ShareMessage::read(&spoilt)
    };
    assert_eq!(
        ShareMessage::read(&[good.clone(), vec![0]].concat()),
        Err(ShareError::Long)
    );
    assert_eq!(with(0, &[9]), Err(ShareError::Version { found: 9 }));
    assert_eq!(with(1, &u32::MAX.to_le_bytes()), Err(ShareError::TooMany));
    assert_eq!(with(1, &8_000_u32.to_le_bytes()), Err(ShareError::Short));
    assert_eq!(with(13, &f64::NAN.to_le_bytes()), Err(ShareError::Figure));
    assert_eq!(with(21, &(-1.0_f64).to_le_bytes()), Err(ShareError::Figure));
    assert_eq!(with(45, &0.0_f32.to_le_bytes()), Err(ShareError::Figure));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0_u8..3) {
        let bytes = [vec![version], bytes].concat();
        if let Ok(message) = ShareMessage::read(&bytes) {
            prop_assert_eq!(message.to_bytes(), bytes);
        }
    }
}
