package etcdstore

import (
	"testing"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// Whatever stands under whatever key of the store, only what is valid is seen, each under its
// own name, and what is deleted is gone.
func FuzzContents(f *testing.F) {
	for key, value := range map[string]string{
		"map": `{"format":2}`, "manager": "operator", "databases/a": "created", "databases/": "x", "databases": "x", "tokens/abc": "{}", "tokens": "{}",
		"nodes/n1": `{"id":"n1","incarnation":"0123456789abcdef0123456789abcdef","rpc_address":"127.0.0.1:1"}`, "nodes/n2": `{"id":"n1"}`, "nodes/": "{}",
		"desired/n1": "draining", "desired/../x": "active", "incarnations/n1": `[{"incarnation":"x"}]`, "incarnations/n2": "[", "": "", "/": "x", "elect/placement/1": "x",
	} {
		f.Add(key, []byte(value))
	}
	k := keysOf("home")
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		c := contents{
			nodes: map[string]shardmap.NodeInfo{}, desired: map[string]shardmap.Desired{}, incarnations: map[string][]shardmap.Incarnation{},
			databases: map[string]shardmap.DatabaseMark{}, tokens: map[string]string{},
		}
		if value == nil {
			value = []byte{} // nil stands for a key that was deleted
		}
		c.put(k, k.prefix+key, value)
		v := c.view()
		if v.Map != nil && (v.Err != nil || v.Map.Validate() != nil) {
			t.Fatalf("the map %+v, %v", v.Map, v.Err)
		}
		if shardmap.ValidateManager(v.Manager) != nil && v.Manager != "" {
			t.Fatalf("the manager %q", v.Manager)
		}
		for id, info := range v.Nodes {
			if info.ID != id || !shardmap.ValidName(id) || info.Validate() != nil {
				t.Fatalf("the node %q: %+v", id, info)
			}
		}
		for id, desired := range v.Desired {
			if !shardmap.ValidName(id) || !desired.Valid() {
				t.Fatalf("node %q shall be %q", id, desired)
			}
		}
		for id := range v.Incarnations {
			if !shardmap.ValidName(id) {
				t.Fatalf("incarnations of %q", id)
			}
		}
		for name, mark := range v.Databases {
			if shardmap.ValidateDatabase(name, mark) != nil || mark == "" {
				t.Fatalf("the database %q has the mark %q", name, mark)
			}
		}
		for id, record := range v.Tokens {
			if shardmap.ValidateToken(id, record) != nil || record == "" {
				t.Fatalf("the token %q: %q", id, record)
			}
		}
		c.put(k, k.prefix+key, nil)
		if v := c.view(); v.Map != nil || v.Err != nil || v.Manager != "" || len(v.Nodes)+len(v.Desired)+len(v.Incarnations)+len(v.Databases)+len(v.Tokens) > 0 {
			t.Fatalf("%q was deleted, and %+v is left", key, v)
		}
	})
}
