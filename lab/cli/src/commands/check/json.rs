//! The forms of the result that are JSON.

use super::findings::Findings;
use super::formats::described;
use anyhow::Result;
use keel_check::{
    CallKind, Cost, Deed, GateResult, Group, LimitResult, Outcome, Share, Violation, ZoneResult,
};
use serde_json::{Value, json};

/// Indented, with a line end.
pub fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Everything that is known.
pub fn everything(findings: &Findings) -> Value {
    let checked = &findings.checked;
    json!({
        "program_failure": findings.failure,
        "limits": checked.limits.iter().map(limit).collect::<Vec<_>>(),
        "zones": checked.zones.iter().map(|one| zone(one, &findings.threads)).collect::<Vec<_>>(),
        "latency": checked.gates.iter().map(gate).collect::<Vec<_>>(),
        "suppressions": checked.suppressed.iter().map(|(one, calls)| json!({
            "symbol": one.symbol.0, "reason": one.reason.0, "calls": calls,
        })).collect::<Vec<_>>(),
        "notes": checked.notes,
    })
}

fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Kept => "kept",
        Outcome::Broken => "broken",
        Outcome::Unknown(_) => "unknown",
    }
}

fn reason(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Unknown(reason) => Some(reason),
        _ => None,
    }
}

fn limit(result: &LimitResult) -> Value {
    let share = |share: &Share| {
        json!({
            "value": share.value, "before": share.before, "stack": share.stack,
        })
    };
    json!({
        "scope": result.scope.to_string(),
        "metric": result.metric,
        "outcome": outcome(&result.outcome),
        "reason": reason(&result.outcome),
        "limit": result.limit,
        "value": result.value,
        "pass": result.pass,
        "before": result.before,
        "call_sites": result.shares.iter().map(share).collect::<Vec<_>>(),
    })
}

fn gate(result: &GateResult) -> Value {
    json!({
        "gate": result.gate.to_string(),
        "outcome": outcome(&result.outcome),
        "reason": reason(&result.outcome),
        "at_most": result.gate.at_most,
        "ratio": result.ratio,
        "low": result.low,
        "high": result.high,
        "undecided": result.is_unclear,
    })
}

fn zone(result: &ZoneResult, threads: &[String]) -> Value {
    let call = |one: &Violation| {
        let (name, size, took_ns) = match &one.deed {
            Deed::Operation { op, size, .. } => (op.name(), *size, None),
            Deed::Call { function, took_ns, .. } => (function.as_str(), None, *took_ns),
        };
        json!({
            "operation": name,
            "bytes": size,
            "took_ns": took_ns,
            "time_ns": one.time,
            "thread": threads.get(one.thread as usize),
            "stack": one.stack,
        })
    };
    let group = |group: &Group| {
        let waits = CallKind::ALL
            .map(|kind| (kind.name().to_owned(), Value::from(group.waits[kind as usize])));
        json!({
            "allocations": group.allocations,
            "frees": group.frees,
            "bytes": group.bytes,
            "waits": waits.into_iter().collect::<serde_json::Map<_, _>>(),
            "stacks": group.stacks,
            "calls": group.violations.iter().map(call).collect::<Vec<_>>(),
            "at_worst": group.costs.iter().map(cost).collect::<Vec<_>>(),
        })
    };
    json!({
        "zone": result.zone.place.to_string(),
        "warm_up": result.zone.warm_up,
        "outcome": outcome(&result.outcome),
        "reason": reason(&result.outcome),
        "call_sites": result.groups.iter().map(group).collect::<Vec<_>>(),
    })
}

fn cost(one: &Cost) -> Value {
    json!({
        "allocator": one.allocator, "ns": one.worst_ns, "cause": one.cause, "call": one.call,
    })
}

/// SARIF 2.1.0: a result for each call site, with its costs as a property if they were measured.
pub fn sarif(findings: &Findings) -> Value {
    let mut results = Vec::new();
    for finding in &findings.all {
        let rule = match &finding.outcome {
            Outcome::Kept => continue,
            Outcome::Unknown(_) => "cannot-check",
            Outcome::Broken if finding.name.starts_with("zone ") => "allocation-in-zone",
            Outcome::Broken => "budget-broken",
        };
        if finding.parts.is_empty() {
            results.push(result(rule, &format!("{}: {}", finding.name, finding.message), None));
        }
        for part in &finding.parts {
            let text = format!("{}: {}", finding.name, described(finding, part));
            let mut result = result(rule, &text, part.place.as_ref());
            if !part.costs.is_empty() {
                let costs: Vec<Value> = part.costs.iter().map(cost).collect();
                result["properties"] = json!({"at_worst": costs});
            }
            results.push(result);
        }
    }
    let rules = [
        ("budget-broken", "A count is greater than the limit of the budget."),
        (
            "allocation-in-zone",
            "A zone calls malloc or free, or another function that it excludes.",
        ),
        ("cannot-check", "A limit or a zone cannot be checked."),
    ];
    let rules = rules.map(|(id, text)| json!({"id": id, "shortDescription": {"text": text}}));
    json!({
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{
            "tool": {"driver": {
                "name": "keel check", "version": env!("CARGO_PKG_VERSION"), "rules": rules,
            }},
            "results": results,
        }],
    })
}

fn result(rule: &str, text: &str, place: Option<&(String, u32)>) -> Value {
    let location = |(file, line): &(String, u32)| {
        json!({"physicalLocation": {
            "artifactLocation": {"uri": uri(file)}, "region": {"startLine": line},
        }})
    };
    json!({
        "ruleId": rule,
        "level": "error",
        "message": {"text": text},
        "locations": place.map(location).into_iter().collect::<Vec<_>>(),
    })
}

/// A path as a URI.
fn uri(file: &str) -> String {
    let mut uri = if file.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in file.bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

/// The counts of the limits and of the calls in zones. What is unknown is left out.
pub fn benchmark(findings: &Findings) -> Value {
    let known = |outcome: &Outcome| !matches!(outcome, Outcome::Unknown(_));
    let limits = findings.checked.limits.iter().filter(|limit| known(&limit.outcome));
    let limits = limits.map(|limit| {
        json!({
            "name": format!("{}: {}", limit.scope, limit.metric.title()),
            "unit": if limit.metric.is_bytes() { "bytes" } else { "calls" },
            "value": limit.value,
        })
    });
    let zones = findings.checked.zones.iter().filter(|zone| known(&zone.outcome));
    let zones = zones.map(|zone| {
        json!({
            "name": format!("zone {}", zone.zone.place),
            "unit": "calls",
            "value": zone.groups.iter().map(|group| group.calls()).sum::<u64>(),
        })
    });
    Value::Array(limits.chain(zones).collect())
}
