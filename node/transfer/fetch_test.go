package transfer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/tickmesh/tickmesh/node/replica"
)

// FuzzMeta reads what goes before the files of a shard from any bytes: it is refused, or is what was sent, and no more
// is read than its length says.
func FuzzMeta(f *testing.F) {
	meta := replica.SnapshotMeta{Position: replica.Position{Index: 7, Term: 3}, Era: 2, Configuration: replica.Configuration{Voters: []uint64{1, 2}, Learners: []uint64{3}}}
	encoded := meta.AppendTo(nil)
	f.Add(append(binary.AppendUvarint(nil, uint64(len(encoded))), encoded...))
	f.Add(binary.AppendUvarint(nil, 1<<40))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bufio.NewReader(bytes.NewReader(b))
		got, err := readMeta(in)
		if err != nil {
			return
		}
		size, n := binary.Uvarint(b)
		if left := in.Buffered(); left != len(b)-n-int(size) {
			t.Fatalf("%d bytes are left of %x", left, b)
		}
		if again, err := replica.ParseSnapshotMeta(got.AppendTo(nil)); err != nil || !bytes.Equal(again.AppendTo(nil), got.AppendTo(nil)) {
			t.Fatalf("%+v became %+v: %v", got, again, err)
		}
	})
}
