package etcdserver_test

import (
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/types"

	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

// FuzzParseMembers: what is taken for a list of members is one to etcd, too, with the same names.
func FuzzParseMembers(f *testing.F) {
	for _, text := range []string{"", "a=http://a.b:2380,c=https://c:1", "a=http://[::1]:2380", "a=https://%zz:1", "a=http://a:1,a=http://b:1", "a=b=http://c:1", "a=http://u@h:1", "a=http://h:1?q", " a=http://h:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		members, err := etcdserver.ParseMembers(text)
		if err != nil {
			return
		}
		var named []string
		for _, m := range members {
			named = append(named, m.Name+"="+m.Peer)
		}
		if again := strings.Join(named, ","); again != text {
			t.Fatalf("%q became %q", text, again)
		}
		all, err := types.NewURLsMap(text)
		if err != nil {
			return // etcd says what is wrong when it starts
		}
		for _, m := range members {
			if len(all[m.Name]) != 1 {
				t.Fatalf("%q: etcd has %v", text, all)
			}
		}
	})
}
