use proptest::prelude::*;

use super::*;

/// The text is read, and printed as `printed`, which is read to the same.
fn check<F: TextForm + PartialEq + std::fmt::Debug>(text: &str, printed: &str) {
    let read = F::read(text).unwrap_or_else(|reason| panic!("{text}: {reason}"));
    assert_eq!(read.to_string(), printed, "{text}");
    assert_eq!(F::read(printed), Ok(read), "{text}");
}

/// The text is refused with these words in the reason.
fn refuse<F: TextForm + std::fmt::Debug>(text: &str, words: &str) {
    let reason = F::read(text).expect_err(text);
    assert!(reason.contains(words), "{text}: {reason}");
}

#[test]
fn every_example_of_the_reference_is_right() {
    for form in FORMS {
        assert_eq!((form.refuse)(form.example), None, "{}", form.kind);
        assert!(Form::named(form.format).is_some_and(|found| found.kind == form.kind));
    }
    assert!(Form::named("uuid").is_none());
}

#[test]
fn durations() {
    check::<TimeSpan>("200ms", "200ms");
    check::<TimeSpan>("1m30s", "1m30s");
    check::<TimeSpan>("90s", "1m30s");
    check::<TimeSpan>("1h", "1h");
    check::<TimeSpan>("0s", "0s");
    check::<TimeSpan>("1500ms", "1s500ms");
    check::<TimeSpan>("8784h", "8784h");
    refuse::<TimeSpan>("", "largest first");
    refuse::<TimeSpan>("5", "`5` has no unit");
    refuse::<TimeSpan>("1m30", "`30` has no unit");
    refuse::<TimeSpan>("30s1m", "largest first");
    refuse::<TimeSpan>("1s1s", "largest first");
    refuse::<TimeSpan>("5 s", "has no unit");
    refuse::<TimeSpan>("1.5s", "has no unit");
    refuse::<TimeSpan>("-5s", "largest first");
    refuse::<TimeSpan>("5S", "largest first");
    refuse::<TimeSpan>("5é", "has no unit");
    refuse::<TimeSpan>("1d", "largest first");
    refuse::<TimeSpan>("99999999999999999999s", "largest first");
    refuse::<TimeSpan>("9999999999999999h", "at most a year");
}

#[test]
fn sizes() {
    check::<Size>("32MiB", "32MiB");
    check::<Size>("1024KiB", "1MiB");
    check::<Size>("1000B", "1000B");
    check::<Size>("0B", "0B");
    refuse::<Size>("32", "`32` has no unit");
    refuse::<Size>("32MB", "write `32MiB`");
    refuse::<Size>("32 MiB", "such as `32MiB`");
    refuse::<Size>("-1B", "such as `32MiB`");
    refuse::<Size>("", "such as `32MiB`");
    refuse::<Size>("18446744073709551615GiB", "less than 16 EiB");
}

#[test]
fn shares() {
    check::<Share>("20%", "20%");
    check::<Share>("2.5%", "2.5%");
    check::<Share>("0%", "0%");
    check::<Share>("100.0%", "100%");
    for text in ["20", "0.2", "101%", "-1%", "%", "1e1%", "nan%", "inf%", "20 %", ".%"] {
        refuse::<Share>(text, "from 0 to 100");
    }
}

#[test]
fn sockets() {
    check::<Socket>("127.0.0.1:8080", "127.0.0.1:8080");
    check::<Socket>("[::1]:0", "[::1]:0");
    refuse::<Socket>("localhost:80", "write `127.0.0.1:80`");
    refuse::<Socket>("127.0.0.1", "the port is missing");
    refuse::<Socket>("::1", "the port is missing");
    refuse::<Socket>(":8080", "needs an IP address and a port");
    refuse::<Socket>("127.0.0.1:70000", "needs an IP address and a port");
}

#[test]
fn hosts_and_ports() {
    for text in [
        "10.0.0.5:8000",
        "vllm-0.internal:8000",
        "a_b:1",
        "[fd00::5]:8000",
        "host.:80",
    ] {
        check::<HostPort>(text, text);
    }
    refuse::<HostPort>("http://a:1/v1", "write `a:1`");
    refuse::<HostPort>("https://a:1", "clear-text HTTP/1.1");
    refuse::<HostPort>("a", "the port is missing");
    for port in ["0", "65536", "+80", "", "8o"] {
        refuse::<HostPort>(&format!("a:{port}"), "from 1 to 65535");
    }
    refuse::<HostPort>("fd00::5:8000", "stands in brackets");
    refuse::<HostPort>("[fd00::g]:8000", "is not an IPv6 address");
    for host in ["", "-a", "a-", "a..b", "a b", "a/b", "a@b", &"a".repeat(64)] {
        refuse::<HostPort>(&format!("{host}:80"), "neither a host name");
    }
    check::<HostName>("vllm.svc.cluster.local", "vllm.svc.cluster.local");
    refuse::<HostName>("vllm:80", "the port has an option of its own");
}

#[test]
fn points_of_time() {
    check::<Moment>("2027-01-31", "2027-01-31T00:00:00Z");
    check::<Moment>("2027-01-31T01:00:00+01:00", "2027-01-31T00:00:00Z");
    check::<Moment>("2027-01-31T00:00:00.25Z", "2027-01-31T00:00:00.25Z");
    assert_eq!(
        Moment::read("1970-01-01").unwrap().get(),
        maitred_types::UnixMillis::new(0)
    );
    refuse::<Moment>("1969-12-31", "not before 1970");
    for text in [
        "",
        "2027-02-30",
        "31.01.2027",
        "2027-01-31T00:00:00",
        "tomorrow",
        "2027-1-1",
    ] {
        refuse::<Moment>(text, "is a date such as");
    }
}

#[test]
fn names_and_paths() {
    check::<Name>("Qwen/Qwen3-8B", "Qwen/Qwen3-8B");
    check::<Name>("größe", "größe");
    refuse::<Name>("", "cannot be empty");
    refuse::<Name>("a b", "no spaces");
    refuse::<Name>("a\nb", "no spaces");
    refuse::<Name>(&"x".repeat(257), "at most 256 bytes");
    check::<HttpPath>("/metrics?x=1", "/metrics?x=1");
    refuse::<HttpPath>("metrics", "write `/metrics`");
    refuse::<HttpPath>("http://a/metrics", "only the path");
    refuse::<HttpPath>("/a b", "visible ASCII");
    refuse::<HttpPath>("/a#b", "visible ASCII");
    check::<HeaderName>("X-Session-Id", "x-session-id");
    refuse::<HeaderName>("x session", "letters, digits and hyphens");
    refuse::<HeaderName>("", "letters, digits and hyphens");
    check::<MetricName>("vllm:lora_requests_info", "vllm:lora_requests_info");
    refuse::<MetricName>("9lives", "does not begin with a digit");
    refuse::<MetricName>("a{b}", "letters, digits");
    check::<FilePath>("/etc/tls key.pem", "/etc/tls key.pem");
    refuse::<FilePath>("", "1 to 4096 bytes");
    refuse::<FilePath>("a\0b", "no control characters");
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_prints_to_the_same(text in ".{0,40}") {
        fn round<F: TextForm + PartialEq + std::fmt::Debug>(text: &str) {
            if let Ok(read) = F::read(text) {
                assert_eq!(F::read(&read.to_string()), Ok(read), "{text}");
            }
        }
        round::<TimeSpan>(&text);
        round::<Size>(&text);
        round::<Share>(&text);
        round::<Socket>(&text);
        round::<HostPort>(&text);
        round::<HostName>(&text);
        round::<Moment>(&text);
        round::<Name>(&text);
        round::<FilePath>(&text);
        round::<HttpPath>(&text);
        round::<HeaderName>(&text);
        round::<MetricName>(&text);
        round::<FigureText>(&text);
        round::<KeyHashText>(&text);
        round::<ModelPatternText>(&text);
        round::<WebUrl>(&text);
        round::<BaseUrl>(&text);
    }

    #[test]
    fn every_duration_survives(millis in 0_u64..=31_622_400_000) {
        let span = TimeSpan::millis(millis);
        prop_assert_eq!(TimeSpan::read(&span.to_string()), Ok(span));
    }

    #[test]
    fn every_size_survives(bytes in any::<u64>()) {
        let size = Size::new(maitred_types::ByteSize::new(bytes));
        prop_assert_eq!(Size::read(&size.to_string()), Ok(size));
    }
}

#[test]
fn parts_of_the_day() {
    check::<HoursText>("22:00-06:00", "22:00-06:00");
    check::<HoursText>("00:00-24:00", "00:00-24:00");
    for text in [
        "",
        "22-6",
        "22:00",
        "06:00-06:00",
        "24:00-06:00",
        "22:00-24:01",
        "22:60-23:00",
        "2:00-3:00",
        "+2:00-03:00",
    ] {
        refuse::<HoursText>(text, "such as `22:00-06:00`");
    }
    check::<OffsetText>("+01:00", "+01:00");
    check::<OffsetText>("-03:30", "-03:30");
    check::<OffsetText>("-00:00", "+00:00");
    for text in ["", "01:00", "+1:00", "+14:01", "-24:00", "é01:00", "Europe/Berlin"] {
        refuse::<OffsetText>(text, "such as `+01:00`");
    }
}
