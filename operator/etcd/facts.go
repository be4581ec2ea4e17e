package etcd

// Member is a member in etcd's own list.
type Member struct {
	ID      uint64
	Name    string // empty: it has never started
	PeerURL string
	Learner bool // it has no vote yet
	Healthy bool // it answers
}

// Known is a member as it was when etcd answered last.
type Known struct {
	Ordinal  int
	ClaimUID string // of the claim with its data; empty: it is not known
	Learner  bool
}

// Phase is what is being done while a new etcd takes the place of a lost one.
type Phase string

// The phases. None: there is no such thing.
const (
	None     Phase = ""
	Clearing Phase = "Clearing" // the pods and volumes of the old one go
	Making   Phase = "Making"   // there are none left; the new one has not answered yet
)

// Pod is the pod of a member.
type Pod struct {
	Ordinal     int
	UID         string
	Machine     string // empty: not scheduled
	Running     bool
	Ready       bool
	Terminating bool
	Outdated    bool
	Asked       bool // a person asks for its restart, whatever else its template has
}

// Claim is the volume claim of a member.
type Claim struct {
	Ordinal     int
	Name, UID   string
	Machine     string // the only one that can mount the volume; empty: any
	MemberID    uint64 // of the member whose data is on it, as it was marked; 0: none yet
	GivenUp     bool   // it is marked: its member is being removed
	Lost        bool
	Terminating bool
	// MachineMissingSinceMs is since when Machine does not exist, as the claim says; 0: it
	// says nothing of it.
	MachineMissingSinceMs int64
}

// Machine is a machine of Kubernetes.
type Machine struct {
	NotReadySinceMs int64 // 0: it is ready
	OutOfService    bool
}

// Facts are what is looked at.
type Facts struct {
	NowMs          int64
	ReplaceAfterMs int64 // a machine that says nothing for so long is lost
	Wanted         int   // members
	Replicas       int   // of the StatefulSet; below 0: there is none
	Created        bool  // this etcd has answered before
	// Urgent records that no pod gets a certificate until the members are restarted from their
	// present template: one that is silent does not hold up the others then.
	Urgent bool
	// Closed records that no maintenance window is open: pods that run are restarted only when
	// they are Asked.
	Closed bool
	// Names and PeerURLs of members, by ordinal; as many as there can be.
	Names, PeerURLs []string
	// Members of the etcd as it answers now; nil: it does not, or has no majority.
	Members []Member
	// Known are the members of when it answered last. At most one change of them was made
	// since, as they are written down before each.
	Known         []Known
	UnavailableMs int64 // for how long it has not answered
	Generation    int64 // how often a new etcd took the place of one that was lost
	// Asked is the generation that a person asks for; 0: none.
	Asked   int64
	Rebuild Phase
	// Unrescuable describes why the shard map could not be put into a new etcd now; "": it could.
	Unrescuable string

	Pods     []Pod
	Claims   []Claim
	Machines map[string]Machine // one that is not in it does not exist
}

func (f *Facts) pod(ordinal int) *Pod {
	for i := range f.Pods {
		if f.Pods[i].Ordinal == ordinal {
			return &f.Pods[i]
		}
	}
	return nil
}

func (f *Facts) claim(ordinal int) *Claim {
	for i := range f.Claims {
		if f.Claims[i].Ordinal == ordinal {
			return &f.Claims[i]
		}
	}
	return nil
}

// member returns the member of an ordinal. One that has never started has no name.
func (f *Facts) member(ordinal int) *Member {
	for i := range f.Members {
		m := &f.Members[i]
		if m.Name == f.Names[ordinal] || m.Name == "" && m.PeerURL == f.PeerURLs[ordinal] {
			return m
		}
	}
	return nil
}

func (f *Facts) machineGone(name string) bool {
	machine, exists := f.Machines[name]
	if !exists || machine.OutOfService {
		return true
	}
	return machine.NotReadySinceMs > 0 && f.NowMs-machine.NotReadySinceMs >= f.ReplaceAfterMs
}

// machineAbsent reports whether nothing runs on a machine: it does not exist, or somebody has
// said that it is off.
func (f *Facts) machineAbsent(name string) bool {
	machine, exists := f.Machines[name]
	return !exists || machine.OutOfService
}

// silent reports whether the machine that a member has to run on says nothing.
func (f *Facts) silent(ordinal int) bool {
	name := ""
	if claim := f.claim(ordinal); claim != nil {
		name = claim.Machine
	}
	if pod := f.pod(ordinal); name == "" && pod != nil {
		name = pod.Machine
	}
	machine, exists := f.Machines[name]
	return name != "" && (!exists || machine.OutOfService || machine.NotReadySinceMs > 0)
}

// volumeGone reports whether nobody can mount the volume of a claim any more. A machine that
// does not exist may only have left and be about to join again, so that has to last.
func (f *Facts) volumeGone(c *Claim) bool {
	if c.Lost {
		return true
	}
	if c.Machine == "" {
		return false
	}
	machine, exists := f.Machines[c.Machine]
	if exists {
		return machine.OutOfService
	}
	return c.MachineMissingSinceMs > 0 && f.NowMs-c.MachineMissingSinceMs >= f.ReplaceAfterMs
}

// others counts the voters but that of an ordinal, and those of them that are healthy.
func (f *Facts) others(ordinal int) (voters, healthy int) {
	without := f.member(ordinal)
	for i := range f.Members {
		m := &f.Members[i]
		if m.Learner || without != nil && m.ID == without.ID {
			continue
		}
		voters++
		if m.Healthy {
			healthy++
		}
	}
	return voters, healthy
}

// well reports whether all members vote and are healthy.
func (f *Facts) well() bool {
	for i := range f.Members {
		if f.Members[i].Learner || !f.Members[i].Healthy {
			return false
		}
	}
	return len(f.Members) > 0
}
