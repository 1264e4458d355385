# shellcheck shell=sh disable=SC2154  # sourced; $environment and $folder are set there
# Sets $python to one that has torch and zproof: that of $environment, where the tests install zproof, else ZP_PYTHON
# (python3) with that package on its path, linked in $folder. Exit 77, which CTest reports as skipped, where none has both.
python=$environment/bin/python
if ! "$python" -c 'import torch, zproof' 2>/dev/null; then
  python=${ZP_PYTHON:-python3}
  # zproof alone: the other packages there may be those of another version
  for package in "$environment"/lib/python*/site-packages/zproof; do
    [ ! -d "$package" ] || ln -sfn "$package" "$folder/zproof"
  done
  export PYTHONPATH="$folder${PYTHONPATH:+:$PYTHONPATH}"
fi
if ! reason=$("$python" -c 'import torch, zproof' 2>&1); then
  printf 'SKIPPED: %s cannot import torch and zproof (%s); set ZP_PYTHON to an interpreter that has torch\n' "$python" \
    "$(printf '%s\n' "$reason" | tail -n 1)"
  exit 77
fi
