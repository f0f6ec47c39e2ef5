#!/bin/sh
# Makes the virtual environment and sees to the system packages. Usage: setup.sh VENV [test]
# A second call with nothing changed takes a few milliseconds.
set -eu
venv=$1
purpose=${2:-use}
extras=
[ "$purpose" != test ] || extras='[test]'
stamp=$venv/ohforge-$purpose.stamp
here=$(cd "$(dirname "$0")/.." && pwd)

# command -> Debian package that brings it
needed="qemu-aarch64-static:qemu-user-static qemu-arm-static:qemu-user-static mksh:mksh toybox:toybox"
wanted="make:make ccache:ccache proot:proot busybox:busybox-static"

# for the tests: other tools to compare with, and the libraries that Debian's clang needs in the stand-in SDK
test_packages="curl fish gcc openssh-server openssl unzip libedit2 libffi8 libxml2 libz3-4 libzstd1 zlib1g libstdc++6"
# and a browser, unless there is one
command -v chromium >/dev/null 2>&1 || test_packages="$test_packages chromium-headless-shell"

missing_packages() {
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || echo "${pair##*:}"
    done | sort -u
}

not_installed() {
    for name in "$@"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || echo "$name"
    done
}

python_is_new_enough() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for name in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do
        if python_is_new_enough "$name"; then echo "$name"; return; fi
    done
    echo "ohforge needs Python 3.11 or newer: install it, or name it with PYTHON=/path/to/python make …" >&2
    exit 77
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_use_apt() {
    command -v apt-get >/dev/null 2>&1 && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

install_packages() {
    echo "==> installing system packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
        { as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
}

python=$(find_python)
must=$(missing_packages $needed)
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    must="$must python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
nice=$(missing_packages $wanted)
[ "$purpose" != test ] || nice="$nice $(not_installed $test_packages | tr '\n' ' ')"
nice=$(echo $nice)
if [ -n "$must$nice" ]; then
    if may_use_apt; then
        # shellcheck disable=SC2086  # the names are words
        [ -z "$must" ] || install_packages $must
        for name in $nice; do
            install_packages "$name" || echo "    $name could not be installed; docs/dependencies.md says what is missing without it"
        done
    elif [ -n "$must" ]; then
        echo "These system packages are missing and may not be installed from here. Please run:" >&2
        # shellcheck disable=SC2086
        echo "    sudo apt-get install -y" $must $nice >&2
        exit 77
    fi
fi

if [ ! -e "$stamp" ] || [ "$here/pyproject.toml" -nt "$stamp" ]; then
    echo "==> making the Python environment in $venv (about a minute)"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check -e "$here$extras"
    touch "$stamp" "$venv/ohforge-use.stamp"
fi
