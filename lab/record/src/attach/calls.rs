//! The system calls in which a thread can be visited.

/// System calls in which a thread waits for others or for time. Their numbers, and for futex the
/// operation: the locks of the allocator and of the loader use FUTEX_WAIT, condition variables,
/// semaphores and `pthread_join` FUTEX_WAIT_BITSET.
pub fn is_waiting(number: i64, second: u64) -> bool {
    if number == libc::SYS_futex {
        return second as i32 & 0x7f == libc::FUTEX_WAIT_BITSET;
    }
    [
        libc::SYS_read,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_wait4,
        libc::SYS_waitid,
        libc::SYS_pause,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_rt_sigsuspend,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_msgrcv,
        libc::SYS_io_getevents,
    ]
    .contains(&number)
}

/// Whether a stop made a system call return EINTR that the system does not restart, and that waits
/// without a time limit, so that it can be made again.
pub fn is_restartable(registers: &libc::user_regs_struct) -> bool {
    let no_limit = match registers.orig_rax as i64 {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => registers.r10 as i32 == -1,
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => registers.r10 == 0,
        libc::SYS_rt_sigtimedwait => registers.rdx == 0,
        libc::SYS_semop => true,
        _ => false,
    };
    no_limit && registers.rax as i64 == -i64::from(libc::EINTR)
}

/// Whether a stop makes a system call return EINTR, if it has a time limit.
pub fn returns_when_stopped(number: i64) -> bool {
    let calls = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_semtimedop,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
    ];
    calls.contains(&number)
}

/// The system call of a thread that sleeps: its number, its second argument, and where it returns.
pub fn system_call(pid: u32, thread: i32) -> Option<(i64, u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let hex = |at: usize| u64::from_str_radix(words.get(at)?.trim_start_matches("0x"), 16).ok();
    Some((words.first()?.parse().ok()?, hex(2)?, hex(8)?))
}
