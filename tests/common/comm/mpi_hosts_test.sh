#!/bin/sh
# mpi_hosts_test.sh MPIEXEC MPI_COMM_TEST [ZEROPROOF]: MPI over two emulated hosts.
#
# Two network namespaces with a link between them, each with its own host name: ranks are connected
# by TCP only. Then the link is cut during communication, and every rank must name the ranks of the
# other host, and end.
# Exit code 77: skipped, without root, iproute2 or Open MPI.

set -u
mpiexec=$1
program=$2
zeroproof=${3-}

skip() {
  echo "SKIPPED: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip > /dev/null && command -v unshare > /dev/null || skip "ip (package iproute2) or unshare is missing"
"$mpiexec" --version 2> /dev/null | grep -Eq "Open MPI|OpenRTE" || skip "the launch agent is written for Open MPI"

folder=$(mktemp -d) || exit 1
a=zp-a-$$
b=zp-b-$$
job=
clean() {
  [ -z "$job" ] || kill -9 "$job" 2> /dev/null
  for host in "$a" "$b"; do
    # Remaining processes in a namespace were started by this test.
    for pid in $(ip netns pids "$host" 2> /dev/null); do kill -9 "$pid" 2> /dev/null; done
    ip netns del "$host" 2> /dev/null
  done
  rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM

ip netns add "$a" && ip netns add "$b" || skip "network namespaces are not allowed here"
ip link add name zp0 netns "$a" type veth peer name zp0 netns "$b" || skip "veth devices are not allowed here"
for host in "$a" "$b"; do
  number=$([ "$host" = "$a" ] && echo 1 || echo 2)
  ip -n "$host" link set lo up && ip -n "$host" address add "10.77.0.$number/24" dev zp0 &&
    ip -n "$host" link set zp0 up || exit 1
done

# In place of ssh: agent HOST COMMAND..., the command in words for a shell.
cat > "$folder/agent" << 'AGENT'
#!/bin/sh
while :; do
  case $1 in -*) shift ;; *) break ;; esac
done
case $1 in 10.77.0.1) netns=$ZP_TEST_A name=zp-a ;; *) netns=$ZP_TEST_B name=zp-b ;; esac
shift
exec ip netns exec "$netns" unshare --uts sh -c "hostname $name && $*"
AGENT
chmod +x "$folder/agent"
printf '10.77.0.1 slots=2\n10.77.0.2 slots=2\n' > "$folder/hosts"

export ZP_TEST_A="$a" ZP_TEST_B="$b" ZP_TEST_FOLDER="$folder"
export OMPI_MCA_plm_rsh_agent="$folder/agent" OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24
on_a() { ip netns exec "$a" unshare --uts sh -c 'hostname zp-a && exec "$@"' sh "$@"; }

failed=0
expect() { # description, pattern, file
  if grep -Eq "$2" "$3"; then
    echo "ok: $1"
  else
    echo "FAILED: $1; no line matches $2 in:"
    cat "$3"
    failed=1
  fi
}

on_a "$mpiexec" --hostfile "$folder/hosts" -n 4 "$program" hosts > "$folder/out" 2>&1
for line in 'rank 0 runs on zp-a' 'rank 1 runs on zp-a' 'rank 2 runs on zp-b' 'rank 3 runs on zp-b'; do
  expect "$line" "$line" "$folder/out"
done
expect "collectives, groups and windows over two hosts" '4 ranks: [0-9]+ checks passed' "$folder/out"

# Cuts the link once $folder/out contains the line or, with "", two seconds after ranks run on both
# hosts; then waits until no rank is left. Sets `took`.
cut_cable() { # line, name of the ranks' program
  for _ in $(seq 600); do
    if [ -n "$1" ]; then
      grep -q "$1" "$folder/out" && break
    else
      [ "$(ranks "$a" "$2")" -ge 2 ] && [ "$(ranks "$b" "$2")" -ge 2 ] && sleep 2 && break
    fi
    sleep 0.1
  done
  ip -n "$b" link set zp0 down
  cut_at=$(date +%s)
  for _ in $(seq 400); do
    [ "$(ranks "$a" "$2")" = 0 ] && [ "$(ranks "$b" "$2")" = 0 ] && break
    sleep 0.1
  done
  took=$(($(date +%s) - cut_at))
}
ranks() { # namespace, name: number of processes of that program there, without launchers
  for pid in $(ip netns pids "$1"); do
    grep -qz OMPI_COMM_WORLD_RANK "/proc/$pid/environ" 2> /dev/null && cat "/proc/$pid/comm" 2> /dev/null
  done | grep -c "$2"
}
end_all() { # ends processes that wait for the lost host: mpirun and its helper on the other host
  for host in "$a" "$b"; do
    for pid in $(ip netns pids "$host"); do kill -9 "$pid" 2> /dev/null; done
  done
  wait "$job" 2> /dev/null
  job=
  ip -n "$b" link set zp0 up
}

: > "$folder/out"
on_a "$mpiexec" --hostfile "$folder/hosts" -x ZP_TEST_FOLDER -n 4 "$program" cut > "$folder/out" 2>&1 &
job=$!
cut_cable 'cut it now' mpi_comm_test
# The limit is 3 s; that of the end of MPI 2 s more.
[ "$took" -le 10 ] || { echo "FAILED: ranks lived on for $took s after the cut"; failed=1; }
echo "all ranks ended $took s after the cut"
end_all
# A message in transit at the cut may still have arrived: its sender is then not named.
for rank in 0 1; do
  expect "rank $rank names the other host" '^[0-9.]+ s: ranks? ([23]|2 and 3) on node zp-b did not (finish|arrive at) ' \
    "$folder/rank$rank"
done
for rank in 2 3; do
  expect "rank $rank names the other host" '^[0-9.]+ s: ranks? ([01]|0 and 1) on node zp-a did not (finish|arrive at) ' \
    "$folder/rank$rank"
done
[ -n "$zeroproof" ] || exit $failed

# The same with the whole program, which starts mpirun itself.
cases="verify byte_gpt_tiny --recipe adamw --impl host --mode lockstep --stage 2 --dtype bf16 --comm-timeout 4"
# shellcheck disable=SC2086
on_a "$zeroproof" $cases --world threads:2,mpi:4 --hostfile "$folder/hosts" > "$folder/out" 2>&1
expect "verification over two hosts, and one trajectory with threads" '^trajectory .* 2 cases, all equal' "$folder/out"
export ZP_HOSTFILE="$folder/hosts"
# shellcheck disable=SC2086
on_a "$zeroproof" $cases --world mpi:4 --steps 2000 > "$folder/out" 2>&1 &
job=$!
cut_cable "" zeroproof
[ "$took" -le 12 ] || { echo "FAILED: ranks lived on for $took s after the cut"; failed=1; }
echo "all ranks ended $took s after the cut"
for _ in $(seq 400); do
  kill -0 "$job" 2> /dev/null || break
  sleep 0.1
done
kill -0 "$job" 2> /dev/null && { echo "FAILED: zeroproof waits for mpirun for ever"; failed=1; }
echo "zeroproof ended $(($(date +%s) - cut_at)) s after the cut"
end_all
expect "zeroproof names the other host" 'ranks? [0-9 and]+ on node zp-[ab] did not' "$folder/out"
exit $failed
