#!/usr/bin/env bash
# Installs the tools of requirements.txt into an environment of their own, once for each version of
# that file, and prints its folder.
set -euo pipefail
wanted=$(dirname "$0")/requirements.txt
tools=${XDG_CACHE_HOME:-$HOME/.cache}/keel/tools-$(sha256sum "$wanted" | cut -c 1-12)
if [ ! -e "$tools/complete" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools" >&2
    "$tools/bin/pip" install --quiet --disable-pip-version-check -r "$wanted" >&2
    touch "$tools/complete"
fi
echo "$tools"
