package controller_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	meshclient "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/shardmap/memstore"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/controller"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/mesh"
	"github.com/tickmesh/tickmesh/operator/mesh/meshtest"
	"github.com/tickmesh/tickmesh/operator/pki"
	"github.com/tickmesh/tickmesh/operator/reconcile"
	"github.com/tickmesh/tickmesh/operator/upgrade"
)

// world is a namespace of a real API server, an obvious Kubernetes around it, an obvious
// cluster of TickMesh in its pods, and an operator that can be killed.
type world struct {
	t          *testing.T
	api        client.WithWatch
	background context.Context
	namespace  string
	now        time.Time
	machines   map[string]bool // up
	podKeys    map[types.UID]*ecdsa.PrivateKey
	etcdTrust  map[types.UID][]*x509.Certificate // authorities that a pod of etcd was started with
	disks      int

	mesh      *meshtest.Cluster
	placement *memstore.Store
	planner   shardmap.Tracker
	limits    shardmap.Limits
	processes map[string]*process // of nodes, by pod
	folders   map[string]string   // data folder by volume
	routers   bool                // they answer
	etcd      fakeEtcd

	noDisruption bool   // budgets allow none
	program      string // version that nodes tell of; empty: the tag of their image

	operator *controller.Cluster
	home     string // namespace of the operator
	release  string // of the operator
	image    string // that it was released with
	turns    *upgrade.Turns
	life     *life
	recorded *events.FakeRecorder
	target   mesh.Target // that the operator has connected to last
	failing  string      // the step of passes that may fail; "": none may
}

// process is a node that runs.
type process struct {
	store        *memstore.Store
	registration shardmap.Registration
	info         shardmap.NodeInfo
}

const clusterName = "demo"

func newWorld(t *testing.T, machines int) *world {
	t.Helper()
	s := kubernetes(t)
	w := &world{
		t: t, api: s.writes.remembering(s.client), background: context.Background(), namespace: s.namespace(t), now: time.Now().Truncate(time.Second),
		machines: map[string]bool{}, podKeys: map[types.UID]*ecdsa.PrivateKey{}, etcdTrust: map[types.UID][]*x509.Certificate{}, mesh: meshtest.NewCluster(), processes: map[string]*process{}, folders: map[string]string{}, routers: true,
		home:     "operators",
		recorded: events.NewFakeRecorder(10_000), limits: shardmap.DefaultLimits(),
	}
	w.placement = w.mesh.Store.Open(shardmap.Seen{})
	w.mesh.SetStatus(w.status)
	w.limits.ReplaceAfterMs = 600_000
	for i := range machines {
		w.addMachine(fmt.Sprintf("z%d", i%3))
	}
	w.newOperator(0)
	return w
}

// newOperator starts another operator, which dies after so many writes; 0: it lives on.
func (w *world) newOperator(writes int) {
	w.t.Helper()
	w.life = &life{limit: writes}
	metrics, err := reconcile.NewMetrics(prometheus.NewRegistry())
	w.must(err)
	reader := apiServer.writes.remembering(apiServer.operatorClient)
	w.turns = upgrade.NewTurns(time.Minute, w.now)
	w.operator = controller.NewCluster(&reconcile.Scope{
		Client: w.life.mortal(reader), Reader: reader, Events: w.recorded, Now: func() time.Time { return w.now }, PKI: pki.Defaults(), Metrics: metrics,
		Release: w.release, Turns: w.turns,
		Meshes: mesh.NewPool(func(target mesh.Target) (mesh.Mesh, error) {
			w.target = target
			inner, err := w.mesh.Open(target)
			return &mortalMesh{inner, w.life}, err
		}),
		OpenEtcd: func([]string, *tls.Config) (etcd.Admin, error) { return &w.etcd, nil },
		Defaults: build.Facts{Image: cmp.Or(w.image, "tickmesh:test"), EnvoyImage: "envoy:test", OperatorNamespace: w.home},
	})
}

// mortalMesh counts what is written to the store.
type mortalMesh struct {
	mesh.Mesh
	life *life
}

func (m *mortalMesh) SetDesired(ctx context.Context, node string, desired shardmap.Desired) error {
	if err := m.life.write(); err != nil {
		return err
	}
	return m.Mesh.SetDesired(ctx, node, desired)
}

func (m *mortalMesh) SetManager(ctx context.Context, manager string) error {
	if err := m.life.write(); err != nil {
		return err
	}
	return m.Mesh.SetManager(ctx, manager)
}

func (m *mortalMesh) Retire(ctx context.Context, node, incarnation string) error {
	if err := m.life.write(); err != nil {
		return err
	}
	return m.Mesh.Retire(ctx, node, incarnation)
}

// create makes the cluster from YAML of its spec.
func (w *world) create(spec string) {
	w.t.Helper()
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName, Namespace: w.namespace}}
	w.must(yaml.UnmarshalStrict([]byte(spec), &c.Spec))
	w.must(w.api.Create(w.t.Context(), c))
}

func (w *world) cluster() *v1alpha1.TickMeshCluster {
	w.t.Helper()
	c := &v1alpha1.TickMeshCluster{}
	w.must(w.api.Get(w.t.Context(), w.key(clusterName), c))
	return c
}

// change changes the spec.
func (w *world) change(change func(*v1alpha1.TickMeshClusterSpec)) {
	w.t.Helper()
	c := w.cluster()
	change(&c.Spec)
	w.must(w.api.Update(w.t.Context(), c))
}

func request(w *world) ctrlreconcile.Request {
	return ctrlreconcile.Request{NamespacedName: w.key(clusterName)}
}

// pass makes one pass of the operator, and reports whether it was killed in it.
func (w *world) pass() (killed bool) {
	w.t.Helper()
	w.now = w.now.Add(3 * time.Second)
	_, err := w.operator.Reconcile(w.t.Context(), request(w))
	if errors.Is(err, errKilled) {
		return true
	}
	if w.failing == "" || err == nil || !strings.HasPrefix(err.Error(), w.failing) {
		w.must(err)
	}
	return false
}

// step lets everything go on a little.
func (w *world) step() (killed bool) {
	w.t.Helper()
	killed = w.pass()
	w.controllers()
	w.runEtcd()
	w.runMesh()
	return killed
}

const stepsMax = 400

// until lets everything go on until something is so.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for range stepsMax {
		if is() {
			return
		}
		w.step()
	}
	c := w.cluster()
	text, _ := yaml.Marshal(c.Status)
	w.t.Fatalf("never: %s\n%s", what, text)
}

func (w *world) condition(kind string) metav1.Condition {
	w.t.Helper()
	for _, c := range w.cluster().Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// complete reports whether the cluster is as asked for.
func (w *world) complete() bool {
	c := w.cluster()
	if w.condition(v1alpha1.ConditionDegraded).Status != metav1.ConditionFalse {
		return false
	}
	progressing, available := w.condition(v1alpha1.ConditionProgressing), w.condition(v1alpha1.ConditionAvailable)
	return progressing.Reason == "Complete" && progressing.ObservedGeneration == c.Generation && available.Status == metav1.ConditionTrue &&
		c.Status.ShardsMoving == 0 && c.Status.ReadyNodes == c.Spec.NodeCount() && c.Status.Nodes == c.Spec.NodeCount()
}

// processReady reports whether the process of a pod would be ready; a node's is started.
func (w *world) processReady(pod *corev1.Pod) bool {
	if pod.Labels[build.LabelComponent] != build.ComponentNode {
		return true
	}
	if w.processes[pod.Name] != nil {
		return true
	}
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.api.Get(w.t.Context(), w.key(build.ClaimName(pod.Name)), claim))
	folder := w.folders[claim.Spec.VolumeName]
	if folder == "" {
		w.disks++
		folder = fmt.Sprintf("%032x", w.disks)
		w.folders[claim.Spec.VolumeName] = folder
	}
	p := &process{store: w.mesh.Store.Open(shardmap.Seen{}), info: shardmap.NodeInfo{
		ID: pod.Name, Incarnation: folder, RPCAddress: pod.Name + ":1", Zone: pod.Annotations[build.AnnotationZone], Version: pod.Spec.Containers[0].Image,
	}}
	p.info.Version = cmp.Or(w.program, strings.TrimPrefix(p.info.Version, "tickmesh:"))
	var err error
	if p.registration, err = p.store.Register(w.t.Context(), p.info); err != nil {
		return false // another one holds its name, or its folder is retired
	}
	w.processes[pod.Name] = p
	return true
}

func (w *world) stopProcess(pod string) {
	if p := w.processes[pod]; p != nil {
		w.must(p.store.Close())
		delete(w.processes, pod)
	}
}

// runMesh lets placement and groups do what they do, and processes on machines that are
// off end.
func (w *world) runMesh() {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(w.processes)) {
		pod := &corev1.Pod{}
		if !w.found(w.api.Get(w.t.Context(), w.key(name), pod)) || !w.machines[pod.Spec.NodeName] {
			w.stopProcess(name)
		}
	}
	c := w.cluster()
	w.limits.Create = shardmap.Creation{
		Cluster: clusterName, ID: fmt.Sprintf("%032x", 7), InitialNodes: min(int(c.Spec.NodeCount()), 3),
		Settings: shardmap.Settings{Shards: int(c.Spec.Shards), Replication: int(c.Spec.Replication)},
	}
	for range 2 {
		view, err := w.placement.Load(w.t.Context())
		w.must(err)
		steps := shardmap.Plan(w.planner.Observe(view, w.now.UnixMilli()), w.limits)
		if len(steps) > 0 {
			w.placementStep(view, steps[0])
		}
	}
	w.settleRows()
}

func (w *world) placementStep(view shardmap.View, s shardmap.Step) {
	w.t.Helper()
	if s.Kind == shardmap.StepRetire {
		w.must(w.placement.Retire(w.t.Context(), s.Node, s.Incarnation))
		return
	}
	next, err := s.Apply(view.Map)
	w.must(err)
	epoch := uint64(0)
	if view.Map != nil {
		epoch = view.Map.Epoch
	}
	w.must(w.placement.CompareAndSwap(w.t.Context(), epoch, next))
}

// settleRows lets the group of one row reach what is intended.
func (w *world) settleRows() {
	view, err := w.placement.Load(w.t.Context())
	w.must(err)
	if view.Map == nil {
		return
	}
	for shard, row := range view.Map.Rows {
		if row.Intended == nil || !w.majority(row.Members) || !w.majority(row.Intended) {
			continue
		}
		next, _ := row.Published(row.Intended)
		w.must(w.placement.CompareAndSwap(w.t.Context(), view.Map.Epoch, view.Map.WithRow(uint16(shard), next)))
		return
	}
}

func (w *world) live(m shardmap.Member) bool {
	p := w.processes[m.Node]
	return p != nil && p.info.Incarnation == m.Incarnation
}

func (w *world) majority(members []shardmap.Member) bool {
	live := 0
	for _, m := range members {
		if w.live(m) {
			live++
		}
	}
	return 2*live > len(members)
}

// status is what a router tells.
func (w *world) status() (*meshclient.Status, error) {
	view, err := w.placement.Load(w.background)
	if err != nil || !w.routers || view.Map == nil {
		return nil, meshclient.ErrUnavailable
	}
	s := &meshclient.Status{Cluster: clusterName, Shards: uint32(len(view.Map.Rows)), StoreReachable: true}
	for shard, row := range view.Map.Rows {
		is := meshclient.Shard{Shard: uint32(shard), CommitIndex: 100, Bytes: 1 << 20}
		for _, m := range row.Members {
			if w.live(m) && m.Role == shardmap.Full && w.majority(row.Members) && is.Leader == "" {
				is.Leader = m.Node
			}
		}
		for _, m := range row.Members {
			is.Members = append(is.Members, meshclient.Replica{
				Node: m.Node, Incarnation: m.Incarnation, RaftID: m.RaftID, Role: m.Role.String(), MatchIndex: 100, Active: is.Leader != "" && w.live(m),
			})
		}
		s.ShardStatuses = append(s.ShardStatuses, is)
	}
	for id, info := range view.Nodes {
		s.Nodes = append(s.Nodes, meshclient.Node{Node: id, Incarnation: info.Incarnation, Alive: true})
	}
	return s, nil
}
