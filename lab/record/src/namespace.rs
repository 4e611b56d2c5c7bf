//! Process and thread numbers of other process namespaces (containers).
//!
//! A process in a namespace of its own knows itself by another number than `keel record` does: the
//! first process of a container is 1. `/proc/<pid>/status` has both numbers.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The number by which this process knows the one that calls itself `pid` in the process namespace
/// with this inode (0: not known, then this process's own). `None` if there is no such process, or
/// no longer. In another namespace, this looks at all processes.
pub fn pid_from_here(pid: u32, namespace: u64) -> Option<u32> {
    let inode = |of: &Path| std::fs::metadata(of).map(|link| link.ino());
    if namespace == 0 || inode(Path::new("/proc/self/ns/pid")).map_or(true, |own| own == namespace)
    {
        return Some(pid);
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes.filter_map(|process| {
        Some((process.path(), process.file_name().to_str()?.parse::<u32>().ok()?))
    });
    // Another user's namespace cannot be read, but the number in it can.
    let mut of_unknown_namespace = None;
    for (path, outer) in numbered {
        if id_in_its_namespace(&path) != Some(pid) {
            continue;
        }
        match inode(&path.join("ns/pid")) {
            Ok(inode) if inode == namespace => return Some(outer),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                of_unknown_namespace = Some(outer);
            }
            // A process that has ended is in none.
            _ => {}
        }
    }
    of_unknown_namespace
}

/// The number of a process, or of a thread, in its own namespace, if that is not this process's.
/// `folder`: `/proc/<pid>` or `/proc/<pid>/task/<tid>`.
pub fn id_in_its_namespace(folder: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().nth(1)?;
    ids.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_namespace_changes_nothing() {
        let own = std::process::id();
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |link| link.ino());
        assert_eq!(pid_from_here(own, namespace), Some(own));
        assert_eq!(pid_from_here(own, 0), Some(own));
        assert_eq!(pid_from_here(u32::MAX, 1), None, "no process has this number");
    }
}
