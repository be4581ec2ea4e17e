// Package etcdstore is a shardmap.Store in etcd. All keys of a cluster are below one
// prefix, /tickmesh/<cluster>/:
//
//	map                      the shard map, JSON
//	desired/<node>           active, draining or gone
//	manager                  who alone may say what is desired; not there: anybody
//	databases/<name>         created or dropped
//	tokens/<id>              the record of a token, JSON
//	queries/<id>             the record of a continuous query, JSON
//	nodes/<node>             what a live node says of itself, JSON, under its lease
//	incarnations/<node>      its known data folders, JSON
//	elect/placement/<lease>  those who campaign to run placement; rules and queries likewise
//
// What metrics mean is below another one, which views do not have: /tickmesh-metadata/<cluster>/<database>.
//
// The map is changed by a transaction that compares its modification revision, after
// its epoch was read. A watch reads all keys, then follows them from that revision;
// every few seconds it asks etcd for something, so that a quiet but dead connection,
// and an etcd that was set back to an older revision, are noticed.
package etcdstore
