package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	tickmesh "github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// world is a namespace, and routers that say what a test wants.
type world struct {
	t        *testing.T
	api      client.WithWatch
	status   *tickmesh.Status
	forecast *tickmesh.Forecast
	dialErr  error
	logs     Logs
	asked    []tickmesh.Change
	looks    int
	closed   int
	looked   func() // after each look
}

func (w *world) Status(context.Context, bool) (*tickmesh.Status, error) {
	w.looks++
	if w.looked != nil {
		defer w.looked()
	}
	if w.status == nil {
		return nil, errors.New("asleep")
	}
	copied := *w.status
	return &copied, nil
}

func (w *world) Forecast(_ context.Context, change tickmesh.Change) (*tickmesh.Forecast, error) {
	w.asked = append(w.asked, change)
	copied := *w.forecast
	return &copied, nil
}

func (w *world) Close() error { w.closed++; return nil }

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(kinds), corev1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, forecast: &tickmesh.Forecast{},
		api: fake.NewClientBuilder().WithScheme(kinds).WithStatusSubresource(&v1alpha1.TickMeshBackup{}).WithObjects(objects...).Build(),
	}
}

// run runs a command line.
func (w *world) run(ctx context.Context, line string) (string, error) {
	w.t.Helper()
	return w.runWords(ctx, append(strings.Fields(line), "-n", "db"))
}

func (w *world) runWords(ctx context.Context, words []string) (string, error) {
	w.t.Helper()
	var out bytes.Buffer
	cmd := NewCommand(&out, func(a Access) (*Kubernetes, error) {
		if a.Namespace != "db" {
			return nil, fmt.Errorf("namespace %q", a.Namespace)
		}
		return &Kubernetes{API: w.api, Namespace: "db", Logs: w.logs, Dial: func(context.Context, *v1alpha1.TickMeshCluster) (Mesh, error) {
			if w.dialErr != nil {
				return nil, w.dialErr
			}
			return w, nil
		}}, nil
	})
	cmd.SetArgs(words)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// wants runs a command line that must succeed and say so much.
func (w *world) wants(line string, says ...string) string {
	w.t.Helper()
	out, err := w.run(w.t.Context(), line)
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	for _, text := range says {
		if !strings.Contains(out, text) {
			w.t.Errorf("%s does not say %q:\n%s", line, text, out)
		}
	}
	return out
}

// refuses runs a command line that must fail with so much.
func (w *world) refuses(line string, says ...string) {
	w.t.Helper()
	out, err := w.run(w.t.Context(), line)
	if err == nil {
		w.t.Fatalf("%s does not fail:\n%s", line, out)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			w.t.Errorf("%s: %v; want %q", line, err, text)
		}
	}
}

func demo(count int32, drained ...string) *v1alpha1.TickMeshCluster {
	c := &v1alpha1.TickMeshCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "db"}}
	c.Spec.Nodes.Count, c.Spec.Replication, c.Spec.Nodes.Drained = count, 2, drained
	c.Spec.Nodes.Storage.Size = resource.MustParse("10Gi")
	c.Status.Phase, c.Status.ReadyNodes = v1alpha1.PhaseRunning, count
	c.Status.Conditions = []metav1.Condition{{Type: "Available", Status: "True", Reason: "Serving", Message: "all 4 shards take writes and answer"}}
	for i := range count {
		c.Status.NodeStatuses = append(c.Status.NodeStatuses, v1alpha1.NodeStatus{Name: fmt.Sprintf("demo-node-%d", i), Machine: fmt.Sprintf("pi-%d", i), Alive: true})
	}
	return c
}

func meshOf(count int) *tickmesh.Status {
	s := &tickmesh.Status{Cluster: "demo", Shards: 4, Replication: 2, StoreReachable: true}
	for i := range count {
		s.Nodes = append(s.Nodes, tickmesh.Node{
			Node: fmt.Sprintf("demo-node-%d", i), Desired: "active", Alive: true, Leads: 1, FullReplicas: 2, UsedBytes: 5 << 30, CapacityBytes: 10 << 30,
		})
	}
	for i := range uint32(4) {
		s.ShardStatuses = append(s.ShardStatuses, tickmesh.Shard{Shard: i, LossesSurvived: 1})
	}
	return s
}

func TestStatus(t *testing.T) {
	w := newWorld(t, demo(3))
	w.status = meshOf(3)
	w.status.ShardStatuses[2].LossesSurvived = 0
	w.status.Moves = []tickmesh.Move{{Shard: 2, FromNode: "demo-node-0", ToNode: "demo-node-1", Phase: "files", DoneBytes: 1 << 20, TotalBytes: 4 << 20, BytesPerSecond: 1 << 20, RemainingMs: 3000}}
	w.status.MovesAhead = tickmesh.Ahead{Moves: 5, DoneBytes: 1 << 20, TotalBytes: 11 << 20, RemainingMs: 10_000}
	w.status.Problems = []string{"the sky is falling"}
	w.wants("status demo",
		"db/demo: Running, 3 of 3 nodes ready", "Available", "Serving", "demo-node-1  pi-1", "5.0 GiB", "Shards: 4 in 2 copies; 1 would stop if one more node were lost: 2",
		"Moves: 1 of 5 under way, 10.0 MiB to copy, about 10s", "1.0 MiB/s", "Problem: the sky is falling")
	var report statusReport
	if err := json.Unmarshal([]byte(w.wants("status -o json")), &report); err != nil || !slices.Equal(report.AtRisk, []uint32{2}) || report.Mesh.Moves[0].Shard != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	if w.closed != 2 {
		t.Errorf("%d of 2 connections were closed", w.closed)
	}
	w.status = nil
	w.wants("status", "No router answers: asleep", "demo-node-2  pi-2")
	w.dialErr = errNoRouter
	w.wants("status", "No router answers: no router is ready")
	w.refuses("status other", "not found")
	w.refuses("status -o yaml", "expected table or json")
}

func TestWhichCluster(t *testing.T) {
	other := demo(1)
	other.Name = "attic"
	w := newWorld(t, demo(3), other)
	w.refuses("status", "which cluster? namespace db has 2: attic, demo")
	newWorld(t).refuses("status", "namespace db has 0")
}

// A plan asks for just what would be different.
func TestPlan(t *testing.T) {
	w := newWorld(t, demo(3, "demo-node-1"))
	w.status = meshOf(3)
	w.status.Nodes[1].Desired = "draining"
	w.forecast = &tickmesh.Forecast{
		Moves:      []tickmesh.Move{{ToNode: "demo-node-10", TotalBytes: 3 << 20}, {ToNode: "demo-node-4"}, {ToNode: "demo-node-10", TotalBytes: 1 << 20}},
		TotalBytes: 4 << 20, DurationMs: 125_000,
	}
	out := w.wants("plan --replicas 5", "demo: 3 nodes now, 5 then; new: demo-node-3, demo-node-4", "Moves: 3, 2 of them with data, 4.0 MiB, about 2m5s",
		"Now: each survives the loss of a node", "Then: every shard has all of its copies", "demo-node-10  2     4.0 MiB")
	if strings.Index(out, "demo-node-4   1") > strings.Index(out, "demo-node-10  2") {
		t.Errorf("10 is before 4:\n%s", out)
	}
	change := w.asked[0]
	if len(change.Drained) != 0 || len(change.Undrained) != 0 || len(change.Added) != 2 || change.Added[0] != (tickmesh.NewNode{Node: "demo-node-3", CapacityBytes: 10 << 30}) {
		t.Errorf("%+v", change)
	}
	// A scale-in that is under way would be taken back; a drain by name stays.
	w.status.Nodes[2].Desired = "draining"
	w.wants("plan --replicas 3", "3 nodes now, 3 then")
	if change := w.asked[1]; len(change.Drained)+len(change.Added) != 0 || !slices.Equal(change.Undrained, []string{"demo-node-2"}) {
		t.Errorf("%+v", change)
	}
	w.forecast.WithoutWitness = 4
	w.wants("plan --replicas 2 --drain demo-node-0", "emptied: demo-node-2, demo-node-0", "4 shards would have no witness")
	if change := w.asked[2]; !slices.Equal(change.Drained, []string{"demo-node-2", "demo-node-0"}) {
		t.Errorf("%+v", change)
	}
	w.forecast.Refusal, w.forecast.RefusedShards = "there is no other place for its copies", []uint32{1}
	w.refuses("plan --replicas 2", "refused: there is no other place for its copies")
	w.refuses("plan --replicas 1", "2 copies of each shard need at least 2 nodes")
	w.refuses("plan", "--replicas or --drain")
	w.refuses("plan --drain attic", "no such node")
	w.dialErr = errNoRouter
	w.refuses("plan --replicas 5", "reach the routers of demo", "no router is ready")
}

// A plan for another storage class names the nodes whose volumes have another one, and a spare node
// where the first of them could not be emptied.
func TestPlanVolumes(t *testing.T) {
	objects := []client.Object{demo(3)}
	for ordinal, class := range []string{"slow", "fast", "slow"} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("data-demo-node-%d", ordinal), Namespace: "db", Labels: build.Selector(demo(3), build.ComponentNode),
		}}
		claim.Spec.StorageClassName = &class
		objects = append(objects, claim)
	}
	w := newWorld(t, objects...)
	w.status = meshOf(3)
	for i := range w.status.ShardStatuses {
		w.status.ShardStatuses[i].Bytes = 1 << 30
		w.status.ShardStatuses[i].Members = []tickmesh.Replica{{Node: "demo-node-0", Role: "full"}, {Node: "demo-node-1", Role: "full"}, {Node: "demo-node-2", Role: "witness"}}
	}
	w.forecast = &tickmesh.Forecast{}
	w.wants("plan --storage-class fast", "2 volumes would be replaced by ones of storage class fast, one at a time: demo-node-2, demo-node-0", "4.0 GiB move away")
	if change := w.asked[0]; !slices.Equal(change.Drained, []string{"demo-node-2"}) || len(change.Added) > 0 {
		t.Errorf("%+v", change)
	}
	w.forecast.Refusal = "there is no other place for its copies"
	w.refuses("plan --storage-class fast", "refused: there is no other place for its copies")
	if change := w.asked[len(w.asked)-1]; len(change.Added) != 2 || change.Added[1].Node != "demo-node-4" {
		t.Errorf("%+v", change)
	}
	w.refuses("plan --storage-class fast --replicas 5", "alone")
}

func (w *world) drained() []string {
	w.t.Helper()
	c := &v1alpha1.TickMeshCluster{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "db", Name: "demo"}, c); err != nil {
		w.t.Fatal(err)
	}
	return c.Spec.Nodes.Drained
}

func TestDrain(t *testing.T) {
	w := newWorld(t, demo(5, "demo-node-4"))
	w.status = meshOf(5)
	w.wants("drain demo-node-1 demo-node-2 --dry-run", "emptied: demo-node-4, demo-node-1, demo-node-2")
	if got := w.drained(); !slices.Equal(got, []string{"demo-node-4"}) {
		t.Fatalf("a dry run drains %v", got)
	}
	w.wants("drain demo-node-1")
	if got := w.drained(); !slices.Equal(got, []string{"demo-node-4", "demo-node-1"}) {
		t.Errorf("drained %v", got)
	}
	w.forecast.Refusal = "there is no other place for its copies"
	w.refuses("drain demo-node-0", "refused: there is no other place")
	w.refuses("drain node-0", "no such node")
	w.refuses("drain demo-node-0 attic-node-0", "different clusters")
	w.refuses("undrain demo-node-0", "demo-node-0 is not drained")
	w.dialErr = errNoRouter // a drain can be taken back without them
	w.wants("undrain demo-node-4", "demo: drained are now: demo-node-1")
	w.wants("undrain demo-node-1 -o json", `"drained": []`)
	if got := w.drained(); len(got) != 0 {
		t.Errorf("drained %v", got)
	}
}

// What others write into the list at the same time is not lost.
func TestDrainConflict(t *testing.T) {
	w := newWorld(t, demo(5))
	w.status = meshOf(5)
	real, others := w.api, 0
	w.api = interceptor.NewClient(real, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if others < 2 {
				now := &v1alpha1.TickMeshCluster{}
				if err := real.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
					return err
				}
				now.Spec.Nodes.Drained = append(now.Spec.Nodes.Drained, fmt.Sprintf("demo-node-%d", others))
				if err := real.Update(ctx, now); err != nil {
					return err
				}
				others++
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})
	w.wants("drain demo-node-4")
	if got := w.drained(); !slices.Equal(got, []string{"demo-node-0", "demo-node-1", "demo-node-4"}) {
		t.Errorf("drained %v", got)
	}
}

func TestBackup(t *testing.T) {
	w := newWorld(t, demo(3))
	end := v1alpha1.TickMeshBackupStatus{}
	end.Phase, end.Series, end.Samples, end.Bytes = v1alpha1.JobPhaseComplete, 7, 700, 3<<20
	end.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}
	gets := 0
	real := w.api
	w.api = interceptor.NewClient(real, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if b, ok := o.(*v1alpha1.TickMeshBackup); ok && err == nil {
				if gets++; gets == 1 {
					b.Status.Phase = v1alpha1.JobPhaseRunning
				} else {
					b.Status = end
				}
			}
			return err
		},
	})
	w.wants("backup --claim vault --path weekly --incremental --verify --name monday --ttl 30d",
		"monday: Running\nmonday: Complete\n7 series, 700 samples, 3.0 MiB written\n")
	b := &v1alpha1.TickMeshBackup{}
	if err := real.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: "monday"}, b); err != nil {
		t.Fatal(err)
	}
	if v := b.Spec.Target.Volume; b.Spec.ClusterRef.Name != "demo" || !b.Spec.Incremental || !b.Spec.Verify || b.Spec.TTL != "30d" || v == nil || v.ClaimName != "vault" || v.Path != "weekly" {
		t.Errorf("%+v", b.Spec)
	}
	w.refuses("backup --claim vault --name monday", "already exists")
	out := w.wants("backup --s3-endpoint https://s3.example.com --s3-bucket m --s3-secret keys --follow=false -o json")
	var made v1alpha1.TickMeshBackup
	if err := json.Unmarshal([]byte(out), &made); err != nil || !strings.HasPrefix(made.Name, "demo-") || made.Spec.Target.S3 == nil || made.Spec.Target.S3.SecretName != "keys" {
		t.Errorf("%v\n%s", err, out)
	}
	end.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "JobFailed", Message: "no room"}}
	w.refuses("backup --claim vault --name tuesday", "tuesday: it failed: JobFailed: no room")
	end.Conditions = nil
	w.refuses("backup --claim vault --name wednesday --timeout 1ms", "wednesday goes on")
	for _, line := range []string{"", "--claim a --s3-bucket b", "--s3-endpoint https://x --s3-bucket b", "--path p", "--s3-endpoint https://x --s3-bucket b --s3-secret s --path p"} {
		w.refuses("backup "+line, errTarget.Error())
	}
	out = w.wants("backup --claim vault --name keyed --encrypt-to age1one,age1two --identity-secret ids --sign-secret signer --verify-secret trusted --follow=false -o json")
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Spec.Encryption == nil || made.Spec.Signing == nil ||
		!slices.Equal(made.Spec.Encryption.Recipients, []string{"age1one", "age1two"}) || made.Spec.Encryption.IdentitySecretName != "ids" ||
		made.Spec.Signing.SecretName != "signer" || made.Spec.Signing.VerifySecretName != "trusted" {
		t.Errorf("%v\n%s", err, out)
	}
	w.refuses("backup --claim vault --identity-secret ids", errEncryption.Error())
	w.refuses("backup --claim vault --verify-secret trusted", errSigning.Error())
}

func TestRestore(t *testing.T) {
	w := newWorld(t, demo(3))
	real := w.api
	w.api = interceptor.NewClient(real, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if r, ok := o.(*v1alpha1.TickMeshRestore); ok && err == nil {
				r.Status.Phase = v1alpha1.JobPhaseComplete
				r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}
			}
			return err
		},
	})
	w.wants("restore --backup monday --name back --verify --identity-secret ids --verify-secret trusted", "back: Complete\n")
	r := &v1alpha1.TickMeshRestore{}
	if err := real.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: "back"}, r); err != nil {
		t.Fatal(err)
	}
	if s := r.Spec.Source; r.Spec.ClusterRef.Name != "demo" || !r.Spec.Verify || s.BackupName != "monday" || s.Target != nil || s.IdentitySecretName != "ids" || s.VerifySecretName != "trusted" {
		t.Errorf("%+v", r.Spec)
	}
	out := w.wants("restore --position monday --claim vault --path weekly --follow=false -o json")
	var made v1alpha1.TickMeshRestore
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Spec.Source.Position != "monday" || made.Spec.Source.Target == nil || made.Spec.Source.Target.Volume.Path != "weekly" {
		t.Errorf("%v\n%s", err, out)
	}
	for _, line := range []string{"", "--backup a --position b --claim c", "--backup a --claim c", "--claim c"} {
		w.refuses("restore "+line, errSource.Error())
	}
	w.refuses("restore --position a", errTarget.Error())
}

func TestTop(t *testing.T) {
	w := newWorld(t, demo(3))
	w.status = meshOf(3)
	w.status.Nodes[2].Alive, w.status.Problems = false, []string{"a node sleeps"}
	out := w.wants("top --once", "demo: 2 of 3 nodes alive, 4 shards in 2 copies, moves: 0", "50 %", "Problem: a node sleeps")
	if strings.Contains(out, clearScreen) {
		t.Error("one look clears the screen")
	}
	var status tickmesh.Status
	if err := json.Unmarshal([]byte(w.wants("top --once -o json")), &status); err != nil || len(status.Nodes) != 3 {
		t.Errorf("%+v, %v", status, err)
	}
	// It goes on, also when no router answers, until the person has seen enough.
	ctx, cancel := context.WithCancel(t.Context())
	before := w.looks
	w.looked = func() {
		switch w.looks - before {
		case 1:
			w.status = nil
		case 2:
			w.status = meshOf(1)
		case 4:
			cancel()
		}
	}
	out, err := w.run(ctx, "top --interval 200ms")
	if err != nil || strings.Count(out, clearScreen) != 3 || !strings.Contains(out, "no router answers: asleep") || !strings.Contains(out, "1 of 1 nodes alive") {
		t.Errorf("%v\n%s", err, out)
	}
	w.refuses("top --interval 1ms", "at least")
	w.looked, w.status = nil, nil
	w.refuses("top --once", "asleep")
}

func TestWords(t *testing.T) {
	for name, want := range map[string]string{"demo-node-0": "demo 0", "a-node-node-12": "a-node 12", "demo-node-x": "", "demo-node--1": "", "-node-1": "", "demo": "", "demo-node-01": "", "demo-node-": "",
		"demo-node-arm-0": "demo arm 0", "a-node-node-rpi-4-12": "a-node rpi-4 12", "demo-node-arm-": "", "demo-node-Arm-0": ""} {
		cluster, group, ordinal, ok := splitNode(name)
		if got := strings.ReplaceAll(fmt.Sprint(cluster, " ", group, " ", ordinal), "  ", " "); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v; want %q", name, got, ok, want)
		}
	}
	many := make([]uint32, 20)
	if got := shardList(many); strings.Count(got, "0") != shownMax || !strings.HasSuffix(got, "…") {
		t.Error(got)
	}
	if got := nameList(strings.Split(strings.Repeat("n,", 19)+"n", ",")); !strings.HasSuffix(got, "n and 4 more") {
		t.Error(got)
	}
}
