#!/usr/bin/env python3
"""shells.py SHARE: completes a command and an option of keel in each shell that is installed, with
the scripts of the installation whose folder `share` is SHARE. Types into bash and zsh as a user
does; fish answers what it would offer. Fails if a shell offers something else."""
import os
import pty
import select
import shutil
import subprocess
import sys
import time

SHELLS = {  # how it starts, and the line that loads the script
    "bash": (["bash", "--noprofile", "--norc", "-i"],
             "source '{}/bash-completion/completions/keel'"),
    "zsh": (["zsh", "-f", "-i"],
            "fpath=('{}/zsh/site-functions' $fpath); autoload -U compinit; compinit -u -D"),
}
CLEAR = "\x15"  # Ctrl-U


def typed(command, load):
    """Whether the shell completes what is typed."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "dumb"
        os.execvp(command[0], command)

    def answers(keys, text, seconds=20):
        seen, end = "", time.monotonic() + seconds
        os.write(terminal, keys.encode())
        while text not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 4096).decode(errors="replace")
        return text in seen

    # The echo of the line has the quotes. What is typed before the shell edits a line, which it
    # begins to do some time after its prompt, may be lost: a user clears the line and types again.
    complete = answers(load + "; echo lo''aded\n", "\nloaded", 120) and any(
        answers(clear + "keel rec\t", "ord ") and answers("--foll\t", "ow-children")
        for clear in ("", CLEAR, CLEAR))
    os.close(terminal)
    os.waitpid(child, 0)
    return complete


def fish(share):
    script = f"source '{share}/fish/vendor_completions.d/keel.fish'; complete -C 'keel rec'; " \
        "complete -C 'keel record --foll'; complete -C 'keel export --to judy'"
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True,
                          check=False)
    offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    return not done.stderr and offered == ["record", "--follow-children", "judy"]


def main(share):
    failed = False
    for shell in [*SHELLS, "fish"]:
        if shutil.which(shell) is None:
            print(f"{shell}: not installed")
            continue
        command, load = SHELLS.get(shell, (None, None))
        complete = typed(command, load.format(share)) if command else fish(share)
        print(f"{shell}: {'completes' if complete else 'does NOT complete'}")
        failed |= not complete
    return failed


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
