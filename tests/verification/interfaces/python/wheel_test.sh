#!/bin/sh
# wheel_test.sh PYTHON SOURCE_DIR BUILD_DIR    build-wheel, and its wheel on machines of a user
#
# Every Python found from 3.10 on gets the wheel in a root with nothing but that Python and numpy: no network, no compiler,
# no temporary folder, nothing writable. The programs of the wheel record the same golden files as BUILD_DIR/zeroproof, byte for byte.
# 77 where no package index is reachable or bwrap is not installed.
set -eu
python=$1 source=$2 build=$3
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
skip() { printf 'skipped: %s\n' "$1"; exit 77; }
command -v bwrap >/dev/null || skip 'bwrap makes bare roots (Debian: bubblewrap)'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
PYTHON=$python "$source/verification/interfaces/python/build-wheel" "$folder/dist" || status=$?
[ "$status" != 3 ] || skip 'build-wheel says what is missing'
[ "$status" = 0 ] || fail "build-wheel ended with $status"
wheel=$(echo "$folder"/dist/*.whl)
[ -f "$wheel" ] || fail "build-wheel left $(ls "$folder/dist")"
cp "$source/verification/examples/python/adamw.py" "$folder"

# Other systems: the tag alone.
for platform in musllinux_1_2_x86_64 manylinux_2_28_aarch64 manylinux_2_17_x86_64; do
  if "$python" -m pip -q download --no-index --no-deps --only-binary :all: --platform $platform -d "$folder/refused" "$wheel" \
    2>"$folder/log"; then fail "pip accepts the wheel for $platform"; fi
  grep -q 'is not a supported wheel on this platform' "$folder/log" || fail "pip refuses $platform otherwise: $(cat "$folder/log")"
done

# bare ENVIRONMENT OPTION... -- COMMAND...: a root with a Python, the libraries it and numpy need, and the environment.
bare() {
  of=$1
  shift
  files=$("$of/bin/python" -c 'import glob, os, sys, sysconfig
link = sys.executable
while os.path.islink(link):
    link = os.path.join(os.path.dirname(link), os.readlink(link))
    print(link)
print(sysconfig.get_path("stdlib"))')
  files="$files $(find -L "$of/bin/python" "$of/lib" "$("$of/bin/python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')/lib-dynload" \
    ! -path '*/zproof*' \( -name '*.so' -o -name python \) -exec ldd {} + 2>/dev/null |
    grep -oE '(=> |^[[:space:]])/[^ ]+ \(' | tr -d '=>( \t' | grep -v "^$folder" | sort -u)"
  set -- --setenv PYTHONDONTWRITEBYTECODE 1 --ro-bind "$folder" "$folder" "$@"
  libc=$(printf '%s\n' "$files" | grep '/libc\.so\.6$')
  for file in libdl.so.2 libpthread.so.0 librt.so.1 libm.so.6 libgcc_s.so.1; do files="$files ${libc%/*}/$file"; done  # of glibc
  for file in $files; do set -- --ro-bind "$file" "$file" "$@"; done
  bwrap --unshare-all --clearenv --setenv PATH "$of/bin" --setenv HOME / --proc /proc --dev /dev "$@"
}

found=''
for one in "$python" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[0-9].*/bin/python3 /usr/bin/python3.1[0-9]; do
  version=$("$one" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  case " $found" in *" $version "*) continue ;; esac
  found="$found$version "
  env=$folder/$version
  "$one" -m venv "$env"
  "$env/bin/pip" -q --disable-pip-version-check download -d "$folder/index" numpy
  "$env/bin/pip" -q --disable-pip-version-check install --no-index --find-links "$folder/index" numpy
  bare "$env" --bind "$env" "$env" --setenv TMPDIR "$env" -- "$env/bin/pip" -q --disable-pip-version-check install --no-index \
    --no-deps "$wheel" || fail "pip of Python $version does not install the wheel"
  cd "$folder"
  bare "$env" --chdir "$folder" -- "$env/bin/python" -m zproof verify adamw.py:adamw_step | grep '7 pass, 0 fail' ||
    fail "Python $version: the example does not pass"
  bare "$env" -- "$env/bin/python" -m zproof verify op/adamw_update/host/* | grep ' 0 fail' ||
    fail "Python $version: python -m zproof verify does not run the program"
  printf 'ok: Python %s\n' "$version"
done
bin=$("$env/bin/python" -c 'import zproof.program as p; print(p.FOLDER)')

# The bits of the source build: golden files of operations and of a run, and the digests of the self-test.
bits() { # program, folder
  mkdir "$2"
  for op in adamw_update lamb_update adam_update_bf16 cast_to_bf16; do "$1" golden record "$2/$op" op/$op --numel 3001; done
  "$1" golden record "$2/run" byte_gpt_tiny/adamw/host/stage2/threads:3/bf16/free/bucket:4096/omp:2
  "$1" verify 'op/cast_to_bf16/host/*' | grep '^self-test: [0-9]* trajectories and tables as committed' >"$2/self_test"
}
bits "$build/zeroproof" "$folder/source" >"$folder/log" || fail "the source build: $(cat "$folder/log")"
bits "$bin/zeroproof" "$folder/wheel" >"$folder/log" || fail "the program of the wheel: $(cat "$folder/log")"
for file in $(cd "$folder/source" && echo ./*); do
  case $file in *.toml) continue ;; esac  # names the program
  cmp "$folder/source/$file" "$folder/wheel/$file" || fail "the wheel has other bits than the source build in $file"
done

# Other processors and machines.
ZP_ISA=x86-64 "$bin/zeroproof" verify 'op/adamw_update/host/*' | grep ' 0 fail' || fail 'the baseline without AVX2 fails'
if command -v qemu-x86_64-static >/dev/null; then  # Nehalem is x86-64-v2
  export OMP_WAIT_POLICY=PASSIVE  # without it the program starts itself again, on this processor
  nehalem() { qemu-x86_64-static -cpu Nehalem "$bin/zeroproof" "$@"; }
  nehalem doctor | grep 'x86-64 (in use: x86-64)' || fail 'a processor without AVX2 gets code of a newer one'
  nehalem verify op/adamw_update/host/x86-64/fill:training | grep ' 0 fail' || fail 'a processor without AVX2 fails'
fi
for file in "$bin"/zeroproof* "$bin"/../_zproof.abi3.so; do
  if readelf -d "$file" | grep NEEDED | grep -E 'libstdc\+\+|libmpi|libyaml'; then fail "$file needs libraries of the system"; fi
done
"$bin/zeroproof-sim" verify byte_gpt_tiny/adamw/device-fused/stage2/threads:2/bf16/free/bucket:4096/omp:0 | grep ' 0 fail' ||
  fail 'the simulated device does not run'
c++ -std=c++17 -O2 -ffp-contract=off -shared -fPIC -I "$("$env/bin/python" -m zproof include)" -x c++ \
  "$source/verification/examples/plugin_cuda/fused.cu" -o "$folder/libfused.so" || fail 'a kernel cannot be compiled with its headers'
"$bin/zeroproof-sim" verify op/adamw_update/plugin/*/fill:training --plugin "$folder/libfused.so" --declined accept |
  grep ' 0 fail' || fail 'a kernel does not pass on the simulated device'

# says CODE WORDS COMMAND...: the command ends with this code and one sentence on standard error that has the words.
says() {
  code=$1 words=$2 status=0
  shift 2
  "$@" >"$folder/log" 2>"$folder/errors" || status=$?
  if [ "$status" != "$code" ] || [ "$(wc -l <"$folder/errors")" != 1 ] || ! grep "$words" "$folder/errors"; then
    fail "$*: exit code $status, $(cat "$folder/errors")"
  fi
}

# A machine without a place to write.
says 2 'x.safetensors cannot be written: Read-only file system' bare "$env" --chdir / -- "$bin/zeroproof" golden record \
  "$folder/x.safetensors" op/adamw_update
says 2 'zproof: zeroproof-lessons cannot be written (.*); name a folder elsewhere' bare "$env" --chdir "$folder" -- \
  "$env/bin/python" -m zproof lessons

# Ranks as processes: without MPI one sentence; otherwise with the MPI of the machine, in roots with packages of Debian alone.
says 3 'no MPI is installed (no mpirun or mpiexec in PATH); install openmpi-bin' bare "$env" -- "$bin/zeroproof" verify \
  byte_gpt_tiny --world mpi:2
case='byte_gpt_tiny/adamw/host/stage2/mpi:2/bf16/lockstep/bucket:4096/omp:1'
state=$("$bin/zeroproof" train --workload byte_gpt_tiny --steps 2 | grep '^state ')
mkdir -p "$folder/apt/archives/partial"
: >"$folder/apt/status"
for package in openmpi-bin mpich; do
  root=$folder/$package
  mkdir -p "$root/etc" "$root/proc" "$root/dev" "$root/sys" "$root/tmp" "$root/opt"
  rm -f "$folder"/apt/archives/*.deb
  if ! apt-get -qq -y -o Dir::State::status="$folder/apt/status" -o Dir::Cache::archives="$folder/apt/archives" \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 --no-install-recommends --download-only install \
    dash coreutils python3-minimal python3-numpy "$package" >"$folder/log" 2>&1; then
    skip "apt-get does not download $package: $(tail -n 1 "$folder/log")"
  fi
  for archive in "$folder"/apt/archives/*.deb; do dpkg-deb -x "$archive" "$root"; done
  # Links that the packages make when they are configured, and what the console script is.
  ln -sf dash "$root/bin/sh"
  for name in mpirun mpiexec; do ln -sf "$(cd "$root/usr/bin" && echo $name.*)" "$root/usr/bin/$name"; done
  printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
  printf '/usr/lib/x86_64-linux-gnu/%s\n' blas lapack >"$root/etc/ld.so.conf"
  cat /etc/ld.so.conf.d/*.conf >>"$root/etc/ld.so.conf"
  ldconfig -r "$root" 2>/dev/null || /sbin/ldconfig -r "$root"
  "$python" -m zipfile -e "$wheel" "$root/opt"
  chmod +x "$root"/opt/zproof/bin/*
  printf '#!/usr/bin/python3\nfrom zproof.program import main\nmain()\n' >"$root/usr/bin/zeroproof"
  chmod +x "$root/usr/bin/zeroproof"
  inside() {
    bwrap --unshare-all --clearenv --setenv PATH /usr/bin:/bin --setenv HOME / --setenv PYTHONPATH /opt --ro-bind "$root" / \
      --setenv OMPI_ALLOW_RUN_AS_ROOT 1 --setenv OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1 --setenv OMPI_MCA_rmaps_base_oversubscribe 1 \
      --tmpfs /tmp --proc /proc --dev /dev --ro-bind /sys /sys "$@"
  }
  inside zeroproof doctor | grep '^mpi  *ok' || fail "doctor does not find $package"
  inside zeroproof verify "$case" >"$folder/log" 2>&1 || fail "ranks of $package: $(tail -n 20 "$folder/log")"
  grep '1 pass, 0 fail' "$folder/log" || fail "ranks of $package: $(tail -n 20 "$folder/log")"
  says 2 'cannot create a folder in /nowhere: No such file or directory' inside --setenv TMPDIR /nowhere zeroproof verify "$case"
  inside mpirun -n 2 zeroproof train --workload byte_gpt_tiny --world mpi:2 --steps 2 >"$folder/log" 2>&1 ||
    fail "a training that mpirun of $package starts: $(tail -n 20 "$folder/log")"
  grep -x "$state" "$folder/log" || fail "it has other bits: $(grep '^state' "$folder/log")"
done

# Lessons and puzzles without a checkout: those that read records, and one that the program judges.
if "$python" -c 'import matplotlib' 2>/dev/null; then
  (cd "$folder" && "$env/bin/python" -m zproof lessons lessons) || fail 'the lessons are not written'
  for lesson in 01_the_curve_looks_fine 11_overlap 12_which_check_finds_which_bug; do
    env ZP_BUILD=/nowhere PATH="$env/bin:$PATH" MPLBACKEND=Agg "$python" "$folder/lessons/notebooks/$lesson.py" \
      >"$folder/log" 2>&1 || fail "lesson $lesson: $(tail -n 3 "$folder/log")"
  done
  cp "$folder/lessons/notebooks/puzzles/cpp/cast_to_bf16/solution.cpp" "$folder/cast_to_bf16.cpp"
  env ZP_BUILD=/nowhere PATH="$env/bin:$PATH" "$python" "$folder/lessons/notebooks/puzzle" check "$folder/cast_to_bf16.cpp" ||
    fail 'the program of the wheel does not judge a puzzle'
fi

# The source distribution builds the same package; its configuration shows that no file is missing.
tar -C "$folder" -xf "$folder"/dist/zproof-*.tar.gz
cmake -S "$folder"/zproof-*/verification/interfaces/python -B "$folder/sdist" -G Ninja >"$folder/log" 2>&1 ||
  fail "the source distribution cannot be configured: $(tail -n 20 "$folder/log")"
ninja -C "$folder/sdist" -n >"$folder/log" || fail "files are missing in the source distribution: $(tail -n 5 "$folder/log")"
echo 'ok: the wheel'
