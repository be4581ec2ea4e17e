package shardmap

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func folderOf(node string, life int) string {
	return fmt.Sprintf("%031x%s", life, map[string]string{"a": "a", "b": "b", "c": "c", "d": "d"}[node])
}

// board is a node of the tests: it has lost its power so many times.
type board struct {
	name   string
	life   int
	away   bool
	copies []Copy
}

func (b *board) said() NodeCopies {
	n := NodeCopies{Node: b.name, Incarnation: folderOf(b.name, b.life), SyncMs: 1000, Copies: b.copies}
	for life := range b.life {
		n.Former = append(n.Former, folderOf(b.name, life))
	}
	return n
}

// late makes the board's copy one that came late to a fresh group: it has no configuration.
func (b *board) late(id uint64, role Role) {
	b.life, b.copies = 0, []Copy{{RaftID: id, Era: 1, Role: role}}
}

func saidBy(boards []board) (all []NodeCopies) {
	for i := range boards {
		if !boards[i].away {
			all = append(all, boards[i].said())
		}
	}
	return all
}

// members2 are two full voters and a witness, as they were made.
func members2() []Member {
	return []Member{{"a", folderOf("a", 0), 1, Full}, {"b", folderOf("b", 0), 2, Full}, {"c", folderOf("c", 0), 3, Witness}}
}

func mapOf(row Row) *Map {
	return &Map{Format: Format, Cluster: "test", ID: folderOf("a", 99), Epoch: 7, Settings: Settings{Shards: 1, Replication: 2}, Rows: []Row{row}}
}

func copyAt(id uint64, role Role, quarantined bool, term, index uint64) Copy {
	return Copy{RaftID: id, Era: 1, Role: role, Quarantined: quarantined, Term: term, Index: index, ConfigIndex: 1, Members: members2(), NewestMs: int64(index)}
}

func TestRecoveries(t *testing.T) {
	row := Row{Version: 3, RaftIDLast: 3, Era: 1, Members: members2()}
	quarantines := func() []board {
		return []board{{"a", 1, false, []Copy{copyAt(1, Full, true, 4, 90)}}, {"b", 1, false, []Copy{copyAt(2, Full, true, 5, 80)}},
			{"c", 1, false, []Copy{copyAt(3, Witness, true, 5, 99)}}}
	}
	for name, c := range map[string]struct {
		change  func(boards []board, row *Row) []board
		needed  bool // and not only named by one who sees that no leader comes
		auto    bool
		best    string
		missing []string
		loss    int64
	}{
		"all boards lost power": {func(b []board, _ *Row) []board { return b }, true, true, "b", nil, 1000},
		"the longer log wins in one term": {func(b []board, _ *Row) []board {
			b[0].copies[0].Term = 5
			return b
		}, true, true, "a", nil, 1000},
		"a full voter is away": {func(b []board, _ *Row) []board { b[1].away = true; return b }, true, false, "a", []string{"b"}, 0},
		"the witness is away":  {func(b []board, _ *Row) []board { b[2].away = true; return b }, true, true, "b", nil, 1000},
		"two boards have majority": {func(b []board, _ *Row) []board {
			b[1].life, b[1].copies[0].Quarantined, b[2].life, b[2].copies[0].Quarantined = 0, false, 0, false
			return b
		}, false, false, "", nil, 0},
		"one vote lives": {func(b []board, _ *Row) []board {
			b[0].life, b[0].copies[0].Quarantined = 0, false
			return b
		}, true, true, "b", nil, 1000},
		"who is left came late to a fresh group": {func(b []board, _ *Row) []board {
			b[1].late(2, Full)
			b[2].late(3, Witness)
			return b
		}, true, true, "a", nil, 1000},
		"who may know the group is away": {func(b []board, _ *Row) []board {
			b[0].away = true
			b[1].late(2, Full)
			b[2].late(3, Witness)
			return b
		}, true, false, "", []string{"a"}, 0},
		"one came late, and another knows the group": {func(b []board, _ *Row) []board {
			b[1].late(2, Full)
			b[2].life, b[2].copies[0].Quarantined = 0, false
			return b
		}, false, false, "", nil, 0},
		"one came late, and is fetching files": {func(b []board, _ *Row) []board {
			b[1].late(2, Full)
			b[1].copies[0].Unclear = true
			b[2].late(3, Witness)
			return b
		}, false, false, "", nil, 0},
		"one came late, and the other is to be made": {func(b []board, row *Row) []board {
			b[1].late(2, Full)
			b[2].life, b[2].copies = 0, nil
			return b
		}, true, true, "a", nil, 1000},
		"one came late to a group that still begins": {func(b []board, row *Row) []board {
			b[1].late(2, Full)
			b[2].life, b[2].copies, row.Fresh = 0, nil, true
			return b
		}, false, false, "", nil, 0},
		"somebody leads": {func(b []board, _ *Row) []board {
			b[0].life, b[0].copies[0].Quarantined, b[0].copies[0].Leads = 0, false, true
			return b
		}, false, false, "", nil, 0},
		"a vote that may come back": {func(b []board, _ *Row) []board {
			b[0].life, b[0].copies[0].Quarantined, b[2].away = 0, false, true
			return b
		}, true, false, "b", nil, 1000},
		"files are being swapped": {func(b []board, _ *Row) []board { b[1].copies[0].Unclear = true; return b }, true, false, "a", []string{"b"}, 0},
		"another disk":            {func(b []board, _ *Row) []board { b[1].life, b[1].copies = 0, nil; return append(b[:1], b[2]) }, true, false, "a", []string{"b"}, 0},
		"a learner may have got its vote": {func(b []board, row *Row) []board {
			row.Intended = append(members2()[:1:1], Member{"d", folderOf("d", 0), 4, Full})
			row.RaftIDLast = 4
			return b
		}, true, false, "b", []string{"d"}, 0},
		"a learner that was never made": {func(b []board, row *Row) []board {
			row.Intended = append(members2()[:1:1], Member{"d", folderOf("d", 0), 4, Full})
			row.RaftIDLast = 4
			return append(b, board{name: "d", life: 1})
		}, true, true, "b", nil, 1000},
		"nobody was ever made": {func(b []board, row *Row) []board {
			row.Fresh = true
			for i := range b {
				b[i].copies = nil
			}
			return b
		}, true, true, "", nil, 0},
		"everything is lost": {func(b []board, row *Row) []board {
			for i := range b {
				b[i].copies = nil
			}
			return b
		}, true, false, "", nil, 0},
		"a newer era counts more": {func(b []board, row *Row) []board {
			lone := Member{"a", folderOf("a", 0), 9, Full}
			b[0].copies = []Copy{{RaftID: 9, Era: 2, Role: Full, Quarantined: true, Term: 1, Index: 3, Members: []Member{lone}}}
			row.Era, row.RaftIDLast, row.Members = 2, 9, []Member{lone}
			return b
		}, true, true, "a", nil, 1000},
		"a lone leader that the map cannot name": {func(b []board, row *Row) []board {
			lone := Member{"a", folderOf("a", 0), 9, Full}
			b[0].copies = []Copy{{RaftID: 9, Era: 3, Role: Full, Leads: true, Term: 1, Index: 3, Members: []Member{lone}}}
			row.Era, row.RaftIDLast, row.Members = 2, 9, []Member{lone}
			return b
		}, true, true, "a", nil, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			row := row.Clone()
			boards := c.change(quarantines(), &row)
			m := mapOf(row)
			if err := m.Validate(); err != nil {
				t.Fatal(err)
			}
			found := slices.DeleteFunc(Recoveries(m, saidBy(boards)), func(r Recovery) bool { return r.Electable })
			if len(found) > 0 != c.needed {
				t.Fatalf("%+v", found)
			}
			if !c.needed {
				return
			}
			r := &found[0]
			best, missing := "", []string(nil)
			if r.Best != nil {
				best = r.Best.Node
			}
			for _, m := range r.Missing {
				missing = append(missing, m.Node)
			}
			if r.Automatic() != c.auto || best != c.best || !slices.Equal(missing, c.missing) || best != "" && r.LossMsMax != c.loss {
				t.Fatalf("automatic %v, best %q, missing %v, loss %d: %+v", r.Automatic(), best, missing, r.LossMsMax, r)
			}
			next, err := m.Recover(r, 123, false)
			if best == "" && !r.Empty {
				if err == nil {
					t.Fatal("it begins empty without a word")
				}
				next, err = m.Recover(r, 123, true)
			}
			if err != nil {
				t.Fatal(err)
			}
			is, was := next.Rows[0], m.Rows[0]
			if is.Era <= was.Era || is.RaftIDLast <= was.RaftIDLast || len(is.Members) != 1 || is.Members[0].RaftID != is.RaftIDLast ||
				is.Fresh != (best == "") || next.Epoch != m.Epoch+1 {
				t.Fatalf("%+v", is)
			}
			if encoded, err := next.Encode(); err != nil {
				t.Fatal(err)
			} else if again, err := Decode(encoded); err != nil || !again.Equal(next) {
				t.Fatalf("%v: %+v", err, again)
			}
		})
	}
}

// TestRecoveryIsMadeOnce: while the copy that a row names has not taken the shard up, which
// may take a while, no further era is begun; a third one would follow, and so on. Should its
// board lose power before, or somebody name the shard, it is looked for anew.
func TestRecoveryIsMadeOnce(t *testing.T) {
	boards := []board{{"a", 1, false, []Copy{copyAt(1, Full, true, 4, 90)}}, {"b", 1, false, []Copy{copyAt(2, Full, true, 5, 80)}},
		{"c", 1, false, []Copy{copyAt(3, Witness, true, 5, 99)}}}
	m := mapOf(Row{Version: 3, RaftIDLast: 3, Era: 1, Members: members2()})
	found := Recoveries(m, saidBy(boards))
	if len(found) != 1 || !found[0].Automatic() {
		t.Fatalf("%+v", found)
	}
	next, err := m.Recover(&found[0], 1, false)
	if err != nil {
		t.Fatal(err)
	}
	found = Recoveries(&next, saidBy(boards))
	if len(found) != 1 || found[0].Automatic() || !found[0].Electable {
		t.Fatalf("while b takes the shard up: %+v", found)
	}
	if again, err := next.Recover(&found[0], 2, false); err != nil || again.Rows[0].Era != 3 {
		t.Fatalf("on a person's word: %v, %+v", err, again)
	}
	boards[1].life++
	if found = Recoveries(&next, saidBy(boards)); len(found) != 1 || !found[0].Automatic() || found[0].Era != 3 {
		t.Fatalf("after b has lost power again: %+v", found)
	}
}

// TestBeginEmptyBesideRemains: where the log has lost what a copy is, its data stays, so a
// group that begins anew does so elsewhere, or not at all.
func TestBeginEmptyBesideRemains(t *testing.T) {
	m := mapOf(Row{Version: 3, RaftIDLast: 3, Era: 1, Members: members2()})
	boards := []board{{"a", 1, false, []Copy{{Role: Full, Quarantined: true, Unclear: true}}}, {"b", 0, true, nil}, {"d", 0, false, nil}}
	for _, want := range []string{"d", ""} {
		found := Recoveries(m, saidBy(boards))
		if len(found) != 1 || found[0].Best != nil {
			t.Fatalf("%+v", found)
		}
		next, err := m.Recover(&found[0], 1, true)
		if want == "" && !errors.Is(err, ErrNotLost) || want != "" && (err != nil || next.Rows[0].Members[0].Node != want) {
			t.Fatalf("%v, %+v", err, next.Rows)
		}
		boards = boards[:2]
	}
}

// TestRecoveryNeverOvertakes plays a group whose boards lose power, or are away, from fixed
// seeds. The oracle knows what was agreed on: an automatic recovery is never one that a
// majority of votes with one who knows the group could overtake, and its copy has all that any full voter has committed.
func TestRecoveryNeverOvertakes(t *testing.T) {
	drawn := rapid.Custom(func(t *rapid.T) []board {
		boards := []board{{name: "a"}, {name: "b"}, {name: "c"}}
		for i := range boards {
			b := &boards[i]
			b.life = rapid.IntRange(0, 1).Draw(t, "life")
			b.away = rapid.IntRange(0, 4).Draw(t, "away") == 0
			b.copies = []Copy{copyAt(uint64(i+1), members2()[i].Role, b.life > 0, 1, rapid.Uint64Range(0, 5).Draw(t, "index"))}
			if b.life == 0 && rapid.Bool().Draw(t, "late") {
				b.late(uint64(i+1), members2()[i].Role)
			}
		}
		return boards
	})
	automatic := 0
	for seed := range 2000 {
		boards := drawn.Example(seed)
		votes, longest, allData, knows := 0, uint64(0), true, false
		for i := range boards {
			if boards[i].life == 0 {
				votes++
				knows = knows || len(boards[i].copies[0].Members) > 0
			}
			if members2()[i].Role == Full {
				longest = max(longest, boards[i].copies[0].Index)
				allData = allData && !boards[i].away
			}
		}
		row := Row{Version: 1, RaftIDLast: 3, Era: 1, Members: members2()}
		for _, r := range Recoveries(mapOf(row), saidBy(boards)) {
			if !r.Automatic() {
				continue
			}
			automatic++
			if votes >= 2 && knows || !allData || r.Best.Index != longest || r.Best.Role != Full {
				t.Fatalf("seed %d: %d votes live, all data %v, longest %d: %+v", seed, votes, allData, longest, r)
			}
		}
	}
	if automatic < 50 {
		t.Fatalf("%d recoveries were automatic", automatic)
	}
}
