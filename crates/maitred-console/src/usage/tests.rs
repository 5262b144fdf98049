use super::*;

fn told() -> Report {
    let sums = Sums {
        calls: 12,
        failed: 1,
        input: 3400,
        output: 56,
        money: 1_250_000_000,
        ..Sums::default()
    };
    let few = Sums {
        calls: 1,
        money: 150,
        ..Sums::default()
    };
    let idle = Idle {
        values: vec![None, Some("qwen3-8b".into())],
        minutes: 60,
        cost: 3_000_000_000,
        money: 1_749_999_850,
    };
    Report {
        lines: vec![
            (vec!["acme".into(), "qwen3-8b".into()], sums),
            (vec!["=cmd,\"x\"".into(), String::new()], few),
        ],
        idle: vec![idle],
    }
}

/// A report by tenant and task.
fn told_as(format: Format) -> String {
    let question = Question {
        by: vec![By::Tenant, By::Task],
        since: UnixMillis::new(1),
        until: UnixMillis::new(2),
    };
    report(format, &question, &told())
}

#[test]
fn a_table_is_aligned() {
    let table = told_as(Format::Table);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 4, "{table}");
    assert!(rows[0].starts_with("tenant    task      calls  failed"), "{table}");
    assert!(rows[1].starts_with("acme      qwen3-8b     12       1"), "{table}");
    assert!(rows[2].starts_with("=cmd,\"x\"  -             1       0"), "{table}");
    assert!(
        rows[3].starts_with("(idle)    qwen3-8b      0       0") && rows[3].ends_with("1.74999985"),
        "{table}"
    );
    assert!(rows[0].ends_with("money") && rows[1].ends_with("  1.25") && rows[2].ends_with(" 0.00000015"));
    assert!(rows.iter().all(|row| row.chars().count() == rows[0].chars().count()));
}

#[test]
fn cells_are_quoted_and_no_formula_passes() {
    let csv = told_as(Format::Csv);
    let rows: Vec<&str> = csv.split("\r\n").collect();
    assert!(rows[0].starts_with("tenant,task,calls,failed,"), "{csv}");
    assert_eq!(rows[1], "acme,qwen3-8b,12,1,0,0,0,0,3400,0,56,0,0,0,0,1.25,calls");
    assert_eq!(
        rows[2],
        "\"'=cmd,\"\"x\"\"\",,1,0,0,0,0,0,0,0,0,0,0,0,0,0.00000015,calls"
    );
    assert_eq!(rows[3], ",qwen3-8b,0,0,0,0,0,0,0,0,0,0,0,0,0,1.74999985,idle");
    assert_eq!(rows.len(), 5);
}

#[test]
fn json_has_counts_as_numbers_and_money_as_text() {
    let report: serde_json::Value = serde_json::from_str(&told_as(Format::Json)).unwrap();
    assert_eq!(report["lines"][0]["tenant"], "acme");
    assert_eq!(report["lines"][0]["input_tokens"], 3400);
    assert_eq!(report["lines"][0]["money"], "1.25");
    assert_eq!(report["lines"][1]["money"], "0.00000015");
    let idle = &report["lines"][2];
    assert_eq!(
        (&idle["line"], &idle["tenant"], &idle["money"]),
        (&"idle".into(), &serde_json::Value::Null, &"1.74999985".into())
    );
    assert_eq!(
        (&idle["endpoint_minutes"], &idle["hours_money"]),
        (&60.into(), &"3".into())
    );
}

#[test]
fn a_line_of_idle_hours_says_so_wherever_there_is_room() {
    let check = |values: &[Option<&str>], expected: &[&str]| {
        let idle = Idle {
            values: Vec::new(),
            minutes: 1,
            cost: 1,
            money: 1,
        };
        let line = Line {
            values: values.to_vec(),
            sums: Sums::default(),
            idle: Some(&idle),
        };
        assert_eq!(shown(&line), expected);
    };
    check(&[None, None], &["(idle)", "-"]);
    check(&[Some("chat"), None], &["chat", "(idle)"]);
    check(&[Some("chat"), Some("2026-12")], &["chat", "2026-12 (idle)"]);
    check(&[], &[]);
}

#[test]
fn times_are_ago_or_dates() {
    let now = UnixMillis::new(100 * DAY_MS);
    let check = |text: &str, millis: u64| assert_eq!(moment(text, now).unwrap().get(), millis, "{text}");
    check("30d", 70 * DAY_MS);
    check("12h", 100 * DAY_MS - DAY_MS / 2);
    check("2w", 86 * DAY_MS);
    check("900d", 0);
    check("1970-02-01", 31 * DAY_MS);
    assert!(moment("soon", now).is_err());
}
