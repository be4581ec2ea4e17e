package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap/etcdserver"
)

// waitMax bounds each wait for something that has to come.
const waitMax = 2 * time.Minute

// ensemble is a StatefulSet of real members of etcd on the loopback, and a slow and
// obvious Kubernetes around them.
type ensemble struct {
	t        *testing.T
	facts    Facts
	admin    Admin
	clients  []string // URLs, by ordinal
	servers  map[int]*etcdserver.Server
	meet     []string
	dirs     map[int]string
	disks    int
	refusals int // starts that etcd refused
}

func newEnsemble(t *testing.T, wanted int) *ensemble {
	e := &ensemble{t: t, servers: map[int]*etcdserver.Server{}, dirs: map[int]string{}}
	e.facts = Facts{NowMs: 1_000_000, ReplaceAfterMs: 60_000, Wanted: wanted, Replicas: -1, Machines: map[string]Machine{"m0": {}, "m1": {}, "m2": {}, "m9": {}}}
	for ordinal := range 3 {
		e.facts.Names = append(e.facts.Names, fmt.Sprintf("e%d", ordinal))
		e.facts.PeerURLs = append(e.facts.PeerURLs, "http://"+freeAddress(t))
		e.clients = append(e.clients, "http://"+freeAddress(t))
	}
	admin, err := Connect(e.clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.admin = admin
	t.Cleanup(func() {
		for _, server := range e.servers {
			_ = server.Close()
		}
		_ = admin.Close()
	})
	return e
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts the member of an ordinal, as its pod would with the present list.
func (e *ensemble) start(ordinal int) {
	var members []etcdserver.Member
	for _, name := range e.meet {
		peer := "http://127.0.0.1:1"
		if at := slices.Index(e.facts.Names, name); at >= 0 {
			peer = e.facts.PeerURLs[at]
		}
		members = append(members, etcdserver.Member{Name: name, Peer: peer})
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), 20*time.Second)
	defer cancel()
	server, err := etcdserver.Start(ctx, etcdserver.Options{
		DataDir: e.dirs[ordinal], ClientAddress: strings.TrimPrefix(e.clients[ordinal], "http://"),
		PeerAddress: strings.TrimPrefix(e.facts.PeerURLs[ordinal], "http://"), NoSync: true,
		Membership: &etcdserver.Membership{
			Name: e.facts.Names[ordinal], AdvertiseClient: e.clients[ordinal], Members: members, Existing: e.facts.Created, Token: fmt.Sprint("test-", e.facts.Generation),
		},
	})
	if err != nil {
		if !errors.Is(err, etcdserver.ErrStart) {
			e.t.Fatal(err)
		}
		e.refusals++
		return
	}
	e.servers[ordinal] = server
}

// kubernetes makes claims and pods, and runs what can run.
func (e *ensemble) kubernetes() {
	for ordinal := range max(e.facts.Replicas, 0) {
		claim := e.facts.claim(ordinal)
		if claim == nil {
			e.disks++
			e.dirs[ordinal] = filepath.Join(e.t.TempDir(), fmt.Sprint(e.disks))
			e.facts.Claims = append(e.facts.Claims, Claim{Ordinal: ordinal, Name: "c", UID: fmt.Sprint(e.disks), Machine: fmt.Sprintf("m%d", ordinal)})
			if !e.machine(ordinal) {
				e.facts.Claims[len(e.facts.Claims)-1].Machine = "m9"
			}
			claim = e.facts.claim(ordinal)
		}
		if e.facts.pod(ordinal) == nil && !claim.Terminating {
			e.disks++
			e.facts.Pods = append(e.facts.Pods, Pod{Ordinal: ordinal, UID: fmt.Sprint(e.disks), Machine: claim.Machine})
		}
	}
	// The first members of a cluster wait for each other.
	done := make(chan struct{})
	starting := 0
	for i := range e.facts.Pods {
		pod := &e.facts.Pods[i]
		if _, up := e.facts.Machines[pod.Machine]; !up || e.servers[pod.Ordinal] != nil {
			continue
		}
		if e.facts.Created {
			e.start(pod.Ordinal)
		} else {
			starting++
			ordinal := pod.Ordinal
			other := &ensemble{t: e.t, facts: e.facts, clients: e.clients, servers: map[int]*etcdserver.Server{}, meet: e.meet, dirs: e.dirs}
			go func() {
				other.start(ordinal)
				done <- struct{}{}
			}()
			defer func() { e.servers[ordinal] = other.servers[ordinal] }()
		}
	}
	for range starting {
		<-done
	}
}

func (e *ensemble) machine(ordinal int) bool {
	_, exists := e.facts.Machines[fmt.Sprintf("m%d", ordinal)]
	return exists
}

// observe asks etcd, and looks at pods.
func (e *ensemble) observe() {
	view, err := e.admin.View(e.t.Context())
	e.facts.Members = nil
	e.facts.UnavailableMs = e.facts.ReplaceAfterMs
	if err == nil {
		e.facts.Members, e.facts.Created, e.facts.UnavailableMs = view.Members, true, 0
		e.facts.Known = e.known(view.Members)
		if e.facts.Rebuild == Making {
			e.facts.Rebuild = None
		}
	}
	for i := range e.facts.Pods {
		pod := &e.facts.Pods[i]
		pod.Running = e.servers[pod.Ordinal] != nil
		pod.Ready = pod.Running
	}
}

// act makes the actions of a plan.
func (e *ensemble) act(plan Plan) {
	e.meet = plan.Meet
	for _, a := range plan.Actions {
		e.t.Logf("%+v", a)
		var err error
		switch a.Kind {
		case Scale:
			e.facts.Replicas = a.Replicas
		case Add:
			err = e.admin.Add(e.t.Context(), a.PeerURL)
		case Remove:
			err = e.admin.Remove(e.t.Context(), a.MemberID)
		case Promote:
			err = e.admin.Promote(e.t.Context(), a.MemberID)
		case NoteMember:
			e.facts.claim(a.Ordinal).MemberID = a.MemberID
		case NoteMachine:
			e.facts.claim(a.Ordinal).MachineMissingSinceMs = max(a.SinceMs-e.facts.ReplaceAfterMs, 0) // time goes by
		case MarkClaim:
			e.facts.claim(a.Ordinal).GivenUp = a.GivenUp
		case DeleteClaim:
			e.facts.claim(a.Ordinal).Terminating = true
		case DeletePod:
			e.endPod(a.Ordinal)
		case SetRebuild:
			e.setRebuild(a.Phase)
		}
		if err != nil { // it is tried again: etcd wants its members connected for a while
			e.t.Log(err)
		}
	}
	e.facts.Claims = slices.DeleteFunc(e.facts.Claims, func(c Claim) bool { return c.Terminating && e.facts.pod(c.Ordinal) == nil })
}

func (e *ensemble) endPod(ordinal int) {
	if server := e.servers[ordinal]; server != nil {
		_ = server.Close()
		delete(e.servers, ordinal)
	}
	e.facts.Pods = slices.DeleteFunc(e.facts.Pods, func(p Pod) bool { return p.Ordinal == ordinal })
}

// settle goes on until there is nothing to do, and n members vote.
func (e *ensemble) settle(n int) {
	e.t.Helper()
	for began := time.Now(); ; {
		e.observe()
		plan := Decide(e.facts)
		e.meet = plan.Meet
		if len(plan.Actions) == 0 && plan.Waiting == "" && e.facts.well() && len(e.facts.Members) == n {
			return
		}
		if time.Since(began) > waitMax {
			e.t.Fatalf("it does not come to an end: %+v\n%+v", plan, e.facts)
		}
		e.act(plan)
		e.kubernetes()
		time.Sleep(100 * time.Millisecond) // between two looks
	}
}

// A real etcd is made, grows, and heals after a volume, then a machine was lost; a
// member that has forgotten its data never starts before it was removed.
func TestRealEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("etcd wants members connected for some seconds before it takes others")
	}
	t.Parallel()
	e := newEnsemble(t, 1)
	e.settle(1)
	e.facts.Wanted = 3
	e.settle(3)

	// Somebody deletes a claim and its pod: the new pod finds an empty volume.
	before := e.facts.member(1).ID
	e.endPod(1)
	if err := os.RemoveAll(e.dirs[1]); err != nil {
		t.Fatal(err)
	}
	e.facts.Claims = slices.DeleteFunc(e.facts.Claims, func(c Claim) bool { return c.Ordinal == 1 })
	e.refusals = 0
	e.kubernetes()
	if e.refusals != 1 || e.servers[1] != nil {
		t.Fatalf("a member without its data has started: %d refusals", e.refusals)
	}
	e.settle(3)
	if after := e.facts.member(1).ID; after == before {
		t.Fatal("the member that has lost its data is still one")
	}

	// A machine is lost.
	_ = e.servers[2].Close()
	delete(e.servers, 2)
	delete(e.facts.Machines, "m2")
	e.settle(3)
	if claim := e.facts.claim(2); claim.Machine != "m9" {
		t.Fatalf("the member is on %s", claim.Machine)
	}
}

// The members of a new etcd of three meet each other.
func TestRealEtcdOfThree(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, 3)
	e.settle(3)
	e.facts.Wanted = 1 // it never gets smaller
	e.settle(3)
}
