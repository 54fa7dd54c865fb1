#!/usr/bin/env bash
# fetch.sh FOLDER [PYTHON]: QEMU and an AArch64 Python into FOLDER, for `python -m tests.emulation FOLDER MACHINE ...`
#
# Needs a Debian or Ubuntu whose Python is of the same minor version as PYTHON (python3 by default), which has ort-lite's
# packages and pip. Takes a minute, 170 MB of downloads. Installs nothing on this machine and needs no root.
# Elsewhere, fill FOLDER by hand:
#   qemu/usr/bin/qemu-x86_64-static, qemu-aarch64-static   QEMU 7.2 or later: earlier ones have no AVX
#   aarch64/usr/bin/python3.X, its libraries               a root of an AArch64 system, X the minor version of PYTHON
#   aarch64/site                                           packages for it, of the versions that PYTHON has
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2p "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd) python=${2:-python3}
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
here=$(dpkg --print-architecture)

mkdir -p "$folder"/apt/{lists,archives}/partial "$folder"/{deb,qemu,aarch64/site}
touch "$folder/apt/status"
options=(
  -qq -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt"
  -o "APT::Architecture=$here" -o "APT::Architectures::=$here" -o "APT::Architectures::=arm64" -o "APT::Sandbox::User="
)
# A list for one architecture alone, of something else, may be missing; what is needed is missed below.
apt-get "${options[@]}" update || true
cd "$folder/deb"
arm() { printf '%s:arm64 ' "$@"; }
# shellcheck disable=SC2046  # one word a package
apt-get "${options[@]}" download "qemu-user-static:$here" $(arm "python$minor-minimal" "libpython$minor-minimal" \
  "libpython$minor-stdlib" libc6 libexpat1 zlib1g libssl3 libffi8 libgcc-s1 libstdc++6 libbz2-1.0 liblzma5 libuuid1)
for package in ./*_arm64.deb; do dpkg -x "$package" ../aarch64; done
dpkg -x ./qemu-user-static_*.deb ../qemu

packages=(numpy llvmlite numba ml_dtypes onnx protobuf pluggy typing_extensions pillow google-re2)
"$python" - "${packages[@]}" >"$folder/requirements.txt" <<'P'
import sys
from importlib.metadata import version

print(*(f"{name}=={version(name)}" for name in sys.argv[1:]), sep="\n")
P
platforms=(--platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64)
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --upgrade "${platforms[@]}" \
  --python-version "$minor" --target "$folder/aarch64/site" -r "$folder/requirements.txt"
touch "$folder/fetched"
