#!/bin/sh
# Starts a local cluster of separate processes: one etcd, three nodes, one router.
# Ctrl-C stops them all, in order, and nothing else.
#
#	hack/scripts/cluster.sh [folder for data and logs, default ./data-cluster]
#
# HOST, NODES, REPLICATION and SHARDS change the defaults below; PORT is the first of
# the ports that are used. A folder that was used before is used again.
set -eu
cd "$(dirname "$0")/../.."
data=${1:-./data-cluster}
host=${HOST:-127.0.0.1}
nodes=${NODES:-3}
replication=${REPLICATION:-2}
shards=${SHARDS:-128}
port=${PORT:-6180}
case $host in
127.* | localhost) open= ;;
*) open=--insecure ;; # HOST was chosen; each process warns of it
esac

mkdir -p bin "$data"
go build -trimpath -o bin/tickmesh .

router_pid= node_pids= etcd_pid=
stop() {
	trap '' INT TERM
	for pid in $router_pid; do end "$pid"; done
	# All nodes at once: one that is the last has nobody to hand over to.
	# shellcheck disable=SC2086 # a list of numbers
	[ -z "$node_pids" ] || kill $node_pids 2>/dev/null || true
	for pid in $node_pids; do wait "$pid" 2>/dev/null || true; done
	for pid in $etcd_pid; do end "$pid"; done
	echo "stopped; data and logs are in $data"
}
end() {
	kill "$1" 2>/dev/null || true
	wait "$1" 2>/dev/null || true
}
fail() {
	echo "cluster.sh: $1" >&2
	exit 1
}
# Whoever has the ports would answer for the router, and these processes would end.
if curl --silent --output /dev/null "http://$host:$((port + 2))/"; then
	fail "something answers at $host:$((port + 2)) already: end it, or set PORT"
fi
trap stop EXIT
trap 'exit 0' INT TERM

# A child in a session of its own does not get the terminal's Ctrl-C, so that it
# ends when stop says so. setsid replaces itself by the program: $! is its number.
begin() {
	name=$1
	shift
	setsid "$@" >>"$data/$name.log" 2>&1 </dev/null &
	echo $! >"$data/$name.pid"
}

begin etcd bin/tickmesh etcd --data-dir "$data/etcd" --client-addr "$host:$((port + 99))" --peer-addr "$host:$((port + 98))" ${open:+"$open"}
etcd_pid=$!
i=1
while [ "$i" -le "$nodes" ]; do
	begin "n$i" bin/tickmesh node --node-id "n$i" --data-dir "$data/n$i" --etcd-endpoints "$host:$((port + 99))" \
		--rpc-addr "$host:$((port + 10 * i))" --advertise-addr "$host:$((port + 10 * i))" \
		--http-addr "$host:$((port + 10 * i + 1))" --shards "$shards" --replication "$replication" ${open:+"$open"}
	node_pids="$node_pids $!"
	i=$((i + 1))
done
begin router bin/tickmesh router --etcd-endpoints "$host:$((port + 99))" --initial-nodes "$nodes" \
	--shards "$shards" --replication "$replication" --line-addr "$host:$port" --put-addr "$host:$((port + 1))" \
	--http-addr "$host:$((port + 2))" --grpc-addr "$host:$((port + 3))" ${open:+"$open"}
router_pid=$!

# Wait until the router is ready, as long as all processes live.
tries=0
until curl --silent --fail --output /dev/null "http://$host:$((port + 2))/readyz"; do
	for pid in $router_pid $node_pids $etcd_pid; do
		kill -0 "$pid" 2>/dev/null || fail "a process has ended; see the logs in $data"
	done
	tries=$((tries + 1))
	[ "$tries" -lt 600 ] || fail "not ready after a minute; see the logs in $data"
	sleep 0.1
done

cat <<END
The cluster is ready: etcd, $nodes nodes, a router; $replication copies of everything.
  InfluxDB line protocol   http://$host:$((port + 2))/write   TCP $host:$port
  OpenTSDB put             http://$host:$((port + 2))/api/put   TCP $host:$((port + 1))
  Prometheus remote write  http://$host:$((port + 2))/api/v1/write
  PromQL, Grafana          http://$host:$((port + 2))/api/v1/query
  InfluxQL                 http://$host:$((port + 2))/query
  OpenTSDB queries         http://$host:$((port + 2))/api/query
  a page for browsers      http://$host:$((port + 2))/
  status                   bin/tickmesh status --addr $host:$((port + 3))
  processes                etcd $etcd_pid, nodes$node_pids, router $router_pid (kill one and see: kill -9 \$(cat $data/n2.pid))
  data and logs            $data
Try:  curl -d 'cpu,host=a value=0.64' http://$host:$((port + 2))/write
Ctrl-C stops all of it.
END
# A process that ends by itself, or is killed, leaves the others running.
wait "$router_pid" 2>/dev/null || true
for pid in $node_pids $etcd_pid; do wait "$pid" 2>/dev/null || true; done
