//! The processes that a program has started, as /proc shows them.

/// The processes that a process has started and that have not ended, and their own, and so on.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = children(pid);
    let mut at = 0;
    while let Some(next) = found.get(at).copied() {
        found.extend(children(next));
        at += 1;
    }
    found
}

/// The program's name, if the process has not ended.
pub fn name(pid: u32) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (head, rest) = stat.rsplit_once(')')?;
    let has_ended = rest.trim_start().starts_with(['Z', 'X']);
    (!has_ended).then(|| head.split_once('(').map_or("", |(_, name)| name).to_owned())
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

/// `123 (name)`, of the first ones.
pub fn list(processes: &[(u32, String)]) -> String {
    const SHOWN: usize = 5;
    let shown = processes.iter().take(SHOWN).map(|(pid, name)| format!("{pid} ({name})"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if processes.len() > SHOWN {
        text += &format!(" and {} more", processes.len() - SHOWN);
    }
    text
}
