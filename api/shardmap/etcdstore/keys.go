package etcdstore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// keys provides the keys of one cluster.
type keys struct {
	prefix         string
	metadataPrefix string // outside of prefix, so that watches do not load it
}

func keysOf(cluster string) keys {
	return keys{"/tickmesh/" + cluster + "/", "/tickmesh-metadata/" + cluster + "/"}
}

func (k keys) shardMap() string                { return k.prefix + "map" }
func (k keys) desired(node string) string      { return k.prefix + "desired/" + node }
func (k keys) node(node string) string         { return k.prefix + "nodes/" + node }
func (k keys) incarnations(node string) string { return k.prefix + "incarnations/" + node }
func (k keys) manager() string                 { return k.prefix + "manager" }
func (k keys) databases() string               { return k.prefix + "databases/" }
func (k keys) database(name string) string     { return k.databases() + name }
func (k keys) tokens() string                  { return k.prefix + "tokens/" }
func (k keys) token(id string) string          { return k.tokens() + id }
func (k keys) queries() string                 { return k.prefix + "queries/" }
func (k keys) query(id string) string          { return k.queries() + id }
func (k keys) metadata(database string) string { return k.metadataPrefix + database }
func (k keys) election(e shardmap.Election) string {
	return k.prefix + "elect/" + string(e)
}

// contents are the keys of a cluster, decoded one by one as they change.
type contents struct {
	shardMap     *shardmap.Map
	mapErr       error
	nodes        map[string]shardmap.NodeInfo
	desired      map[string]shardmap.Desired
	incarnations map[string][]shardmap.Incarnation
	manager      string
	databases    map[string]shardmap.DatabaseMark // replaced, never changed in place
	tokens       map[string]string                // by id; the same
	queries      map[string]string                // by id; the same
}

// load reads all keys, and returns the revision at which they were so.
func (c *contents) load(ctx context.Context, client *clientv3.Client, k keys) (int64, error) {
	got, err := client.Get(ctx, k.prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	*c = contents{
		nodes:        map[string]shardmap.NodeInfo{},
		desired:      map[string]shardmap.Desired{},
		incarnations: map[string][]shardmap.Incarnation{},
	}
	databases, tokens, queries := map[string]shardmap.DatabaseMark{}, map[string]string{}, map[string]string{}
	for _, kv := range got.Kvs {
		if name, ok := strings.CutPrefix(string(kv.Key), k.databases()); ok {
			putDatabase(databases, name, kv.Value)
			continue
		}
		if id, ok := strings.CutPrefix(string(kv.Key), k.tokens()); ok {
			putRecord(tokens, id, kv.Value, shardmap.ValidateToken)
			continue
		}
		if id, ok := strings.CutPrefix(string(kv.Key), k.queries()); ok {
			putRecord(queries, id, kv.Value, shardmap.ValidateQuery)
			continue
		}
		c.put(k, string(kv.Key), kv.Value)
	}
	c.databases, c.tokens, c.queries = databases, tokens, queries
	return got.Header.Revision, nil
}

// put takes a key's new value, nil when it was deleted. It reports whether that can be
// seen in a view. What cannot be read is left out: a node that nobody understands is
// as good as dead, and the map says what is wrong with it.
func (c *contents) put(k keys, key string, value []byte) bool {
	kind, node, _ := strings.Cut(strings.TrimPrefix(key, k.prefix), "/")
	switch {
	case kind == "map" && node == "":
		c.putMap(value)
	case kind == "manager" && node == "":
		c.manager = ""
		if shardmap.ValidateManager(string(value)) == nil {
			c.manager = string(value)
		}
	case kind == "databases":
		c.databases = maps.Clone(c.databases)
		putDatabase(c.databases, node, value)
	case kind == "tokens":
		c.tokens = maps.Clone(c.tokens)
		putRecord(c.tokens, node, value, shardmap.ValidateToken)
	case kind == "queries":
		c.queries = maps.Clone(c.queries)
		putRecord(c.queries, node, value, shardmap.ValidateQuery)
	case !shardmap.ValidName(node):
		return false
	case kind == "nodes":
		var info shardmap.NodeInfo
		if value == nil || json.Unmarshal(value, &info) != nil || info.ID != node || info.Validate() != nil {
			delete(c.nodes, node)
		} else {
			c.nodes[node] = info
		}
	case kind == "desired":
		if desired := shardmap.Desired(value); desired.Valid() {
			c.desired[node] = desired
		} else {
			delete(c.desired, node)
		}
	case kind == "incarnations":
		if known, err := decodeIncarnations(value); value == nil || err != nil {
			delete(c.incarnations, node)
		} else {
			c.incarnations[node] = known
		}
	default:
		return false
	}
	return true
}

func putDatabase(databases map[string]shardmap.DatabaseMark, name string, value []byte) {
	mark := shardmap.DatabaseMark(value)
	if shardmap.ValidateDatabase(name, mark) != nil || mark == "" {
		delete(databases, name)
		return
	}
	databases[name] = mark
}

// putRecord keeps a record by its id, unless it is gone or not valid.
func putRecord(records map[string]string, id string, value []byte, validate func(id, record string) error) {
	if record := string(value); validate(id, record) != nil || record == "" {
		delete(records, id)
	} else {
		records[id] = record
	}
}

func (c *contents) putMap(value []byte) {
	c.shardMap, c.mapErr = nil, nil
	if value == nil {
		return
	}
	m, err := shardmap.Decode(value)
	if err != nil {
		c.mapErr = err
		return
	}
	c.shardMap = &m
}

// view is a copy of what is known.
func (c *contents) view() shardmap.View {
	view := shardmap.View{
		Map: c.shardMap, Err: c.mapErr, Manager: c.manager, Databases: c.databases, Tokens: c.tokens, Queries: c.queries,
		Nodes:        make(map[string]shardmap.NodeInfo, len(c.nodes)),
		Desired:      make(map[string]shardmap.Desired, len(c.desired)),
		Incarnations: make(map[string][]shardmap.Incarnation, len(c.incarnations)),
	}
	for id, info := range c.nodes {
		view.Nodes[id] = info
	}
	for id, desired := range c.desired {
		view.Desired[id] = desired
	}
	for id, known := range c.incarnations {
		view.Incarnations[id] = known // replaced, never changed in place
	}
	return view
}

func decodeIncarnations(value []byte) ([]shardmap.Incarnation, error) {
	if len(value) == 0 {
		return nil, nil
	}
	var known []shardmap.Incarnation
	if err := json.Unmarshal(value, &known); err != nil {
		return nil, fmt.Errorf("%w: known incarnations: %w", shardmap.ErrNode, err)
	}
	return known, nil
}
