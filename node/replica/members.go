package replica

import (
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// StepKind describes what a leader has to do next for the members of its group.
type StepKind uint8

// The kinds of steps. All can be repeated.
const (
	StepNone     StepKind = iota // the group is what the map wants
	StepWait                     // look again later; Reason has what for
	StepPublish                  // write row.Published(Members) to the map
	StepChange                   // Host.Change to Members
	StepTransfer                 // Host.Transfer to Node
)

// Step is the next step of a group towards its row of the map.
type Step struct {
	Kind    StepKind
	Members []shardmap.Member
	Node    string
	Reason  string
	// Lag is, while waiting for a learner, how many entries it lacks.
	Lag uint64
}

// lagEntriesMax is how many entries a learner may lack when it gets its vote, and a voter that
// is to lead: it has them within a moment, but not while it is still fetching history.
const lagEntriesMax = 64

// NextStep returns what the leader whose status this is has to do to bring its group to
// what its row of the map wants: add learners; wait until they have caught up; one
// change in which they vote and the leavers go; hand the group over first, if it is a
// leaver itself; and, before anything else, publish to the map what the group is now.
func NextStep(row shardmap.Row, status GroupStatus) Step {
	config := &status.Configuration
	switch {
	case !status.Leads:
		return Step{Kind: StepNone}
	case config.Joint():
		return Step{Kind: StepWait, Reason: "a change of the members is under way"}
	case status.Transferring:
		return Step{Kind: StepWait, Reason: "the leadership is being transferred"}
	}
	if _, changed := row.Published(config.Members); changed {
		if !inForce(&status) {
			return Step{Kind: StepWait, Reason: "members take up the configuration"}
		}
		return Step{Kind: StepPublish, Members: slices.Clone(config.Members)}
	}
	target := slices.Clone(row.Target())
	shardmap.SortMembers(target)
	if slices.Equal(target, config.Members) {
		return Step{Kind: StepNone}
	}
	if status.Role == shardmap.Witness {
		return Step{Kind: StepWait, Reason: "a witness leads"}
	}
	if step, ok := makeRoom(target, &status); ok {
		return step
	}
	if learners := withLearners(config.Members, target); len(learners) > len(config.Members) {
		return Step{Kind: StepChange, Members: learners, Reason: "learners join"}
	}
	if wait, ok := catchingUp(target, &status); ok {
		return wait
	}
	return leaveLast(target, &status)
}

// inForce reports whether the configuration may be published, after which those that are no
// members of it delete what they have. A voter that has not applied the change yet would
// still ask the leavers for their votes; so all voters that are heard, and a majority,
// must have logged it.
func inForce(status *GroupStatus) bool {
	voters, have := 0, 0
	for _, p := range status.Progress {
		if !p.Member.Role.Votes() {
			continue
		}
		voters++
		if p.Configured >= status.Configuration.Index {
			have++
		} else if p.Active {
			return false
		}
	}
	return have > voters/2
}

// makeRoom sends away learners that are not wanted any more: their nodes may be meant for
// other replicas next. That two replicas of one place meet in a row is ruled out by M3.
func makeRoom(target []shardmap.Member, status *GroupStatus) (Step, bool) {
	var staying []shardmap.Member
	for _, m := range status.Configuration.Members {
		if m.Role.Votes() || slices.ContainsFunc(target, m.SameReplica) {
			staying = append(staying, m)
		}
	}
	if len(staying) == len(status.Configuration.Members) {
		return Step{}, false
	}
	return Step{Kind: StepChange, Members: staying, Reason: "members make room"}, true
}

// Heir returns the full voter among candidates, other than the leader, that has most of the log, if
// it may lead within a moment: the group takes no proposals until it has all.
func (s *GroupStatus) Heir(candidates []shardmap.Member) (heir shardmap.Member, ok bool) {
	match := uint64(0)
	for _, p := range s.Progress {
		if p.Member.Role == shardmap.Full && p.Member.RaftID != s.RaftID && s.follows(&p) && p.Match > match &&
			slices.Contains(candidates, p.Member) {
			heir, match, ok = p.Member, p.Match, true
		}
	}
	return heir, ok
}

// lag returns how many entries a member lacks.
func (s *GroupStatus) lag(p *MemberProgress) uint64 { return s.Last - min(p.Match, s.Last) }

// follows reports whether a member is heard, and has all of the log within a moment.
func (s *GroupStatus) follows(p *MemberProgress) bool {
	return p.Active && p.Replicating && p.Match > 0 && s.lag(p) <= lagEntriesMax
}

// withLearners is the present members and, as learners, those that target has more.
func withLearners(present, target []shardmap.Member) []shardmap.Member {
	out := slices.Clone(present)
	for _, m := range target {
		if !slices.ContainsFunc(present, m.SameReplica) {
			m.Role = shardmap.Learner
			out = append(out, m)
		}
	}
	shardmap.SortMembers(out)
	return out
}

// catchingUp reports whether a learner that is to vote is not ready yet.
func catchingUp(target []shardmap.Member, status *GroupStatus) (Step, bool) {
	for _, p := range status.Progress {
		at := slices.IndexFunc(target, p.Member.SameReplica)
		if p.Member.Role != shardmap.Learner || at < 0 || !target[at].Role.Votes() {
			continue
		}
		if !status.follows(&p) {
			return Step{Kind: StepWait, Lag: status.lag(&p), Node: p.Member.Node,
				Reason: fmt.Sprintf("node %s catches up", p.Member.Node)}, true
		}
	}
	return Step{}, false
}

// leaveLast goes to target, but a leader that is not in it stays until another full
// voter leads.
func leaveLast(target []shardmap.Member, status *GroupStatus) Step {
	config := &status.Configuration
	self, _ := config.member(status.RaftID)
	if at := slices.IndexFunc(target, self.SameReplica); at >= 0 && target[at].Role == shardmap.Full {
		return Step{Kind: StepChange, Members: target, Reason: "members change"}
	}
	if heir, ok := status.Heir(target); ok {
		return Step{Kind: StepTransfer, Node: heir.Node, Reason: "the leader leaves"}
	}
	if !slices.ContainsFunc(target, func(m shardmap.Member) bool { return m.Role == shardmap.Full }) {
		return Step{Kind: StepWait, Reason: "no full voter would have the data"}
	}
	staying := append(slices.Clone(target), self)
	shardmap.SortMembers(staying)
	if slices.Equal(staying, config.Members) {
		return Step{Kind: StepWait, Reason: "no full voter that stays is heard"}
	}
	return Step{Kind: StepChange, Members: staying, Reason: "the leader leaves last"}
}
