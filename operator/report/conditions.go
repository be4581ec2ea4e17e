package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/shardmap"
	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/hibernation"
	"github.com/tickmesh/tickmesh/operator/inventory"
	"github.com/tickmesh/tickmesh/operator/rollout"
)

// Reasons of conditions, beside those of rollout.
const (
	reasonServing         = "Serving"
	reasonNoShardMap      = "NoShardMap"
	reasonNoRouter        = "NoRouter"
	reasonNoLeader        = "ShardsWithoutLeader"
	reasonComplete        = "Complete"
	reasonPaused          = "Paused"
	reasonScaleRefused    = "ScaleRefused"
	reasonDrainRefused    = "DrainRefused"
	reasonUnknownNode     = "UnknownNode"
	reasonNoMonitors      = "MonitorsLeftOut"
	reasonNames           = "CertificatesWithoutNames"
	reasonVolumesRefused  = "VolumesCannotGrow"
	reasonReplaceRefused  = "ReplaceVolumeRefused"
	reasonNoClass         = "StorageClassMissing"
	reasonStarting        = "Starting"
	reasonEtcdMembers     = "EtcdMembers"
	reasonAsExpected      = "AsExpected"
	reasonEtcdUnavailable = "EtcdUnavailable"
	reasonEtcdMemberLost  = "EtcdMemberLost"
	ReasonEtcdQuorumLost  = "EtcdQuorumLost"
	ReasonStoreLost       = "ShardMapLost"
	reasonUnderReplicated = "UnderReplicated"
	reasonNoWrites        = "NodeTakesNoWrites"
	reasonCertificates    = "CertificateExpired"
	reasonMoving          = "Moving"
	reasonBalanced        = "Balanced"
	reasonUnknown         = "Unknown"
	reasonBootstrap       = "Bootstrap" // before its phase
	reasonBootstrapFailed = reasonBootstrap + string(v1alpha1.BootstrapFailed)
	reasonHibernated      = "Hibernated"
	reasonAwake           = "Awake"
	reasonMaintenance     = "MaintenanceWindow"
	reasonBadMaintenance  = "MaintenanceInvalid"
	reasonVersionRefused  = "VersionRefused"
	reasonNameTaken       = "NameTaken"
	reasonTLSOff          = "TLSOff"
	reasonShared          = "SharedCertificate"
	reasonOwn             = "OwnCertificates"
	reasonFailed          = "Failed" // after the name of a step
)

// asksForAPerson reports whether a person has to do something when a condition has a reason.
func asksForAPerson(reason string) bool {
	switch reason {
	case reasonScaleRefused, reasonDrainRefused, reasonUnknownNode, reasonNoMonitors, reasonVolumesRefused, reasonReplaceRefused, reasonNoClass, reasonVersionRefused, reasonNames, reasonBadMaintenance, reasonBootstrapFailed:
		return true
	}
	return false
}

// messageBytesMax is less than what the schema of conditions allows.
const messageBytesMax = 4096

// verdict is the content of a condition.
type verdict struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

func yes(reason, message string) verdict { return verdict{metav1.ConditionTrue, reason, message} }
func no(reason, message string) verdict  { return verdict{metav1.ConditionFalse, reason, message} }

// conditions returns the conditions of now.
func (f *Facts) conditions() map[string]verdict {
	available, progressing := f.available(), f.progressing()
	verdicts := map[string]verdict{
		v1alpha1.ConditionReady:       ready(available, progressing),
		v1alpha1.ConditionAvailable:   available,
		v1alpha1.ConditionProgressing: progressing,
		v1alpha1.ConditionDegraded:    f.degraded(),
		v1alpha1.ConditionRebalancing: f.rebalancing(),

		v1alpha1.ConditionNodesIdentified: f.nodesIdentified(),
	}
	told := meta.FindStatusCondition(f.Cluster.Status.Conditions, v1alpha1.ConditionHibernated) != nil
	if told || f.Hibernation.Stage != hibernation.Awake {
		verdicts[v1alpha1.ConditionHibernated] = f.hibernated()
	}
	if f.Bootstrap.Phase != "" {
		verdicts[v1alpha1.ConditionBootstrapped] = f.bootstrapped()
	}
	return verdicts
}

// bootstrapped judges whether what the cluster is to begin with is there.
func (f *Facts) bootstrapped() verdict {
	reason := reasonBootstrap + string(f.Bootstrap.Phase)
	if f.Bootstrap.Closed() {
		return no(reason, f.Bootstrap.Message)
	}
	if before := meta.FindStatusCondition(f.Cluster.Status.Conditions, v1alpha1.ConditionBootstrapped); before != nil && before.Reason == reason {
		return yes(reason, before.Message) // with how much it was
	}
	return yes(reason, f.Bootstrap.Message)
}

// hibernated judges whether the cluster sleeps.
func (f *Facts) hibernated() verdict {
	switch plan := &f.Hibernation; plan.Stage {
	case hibernation.Asleep:
		return yes(reasonHibernated, "spec.hibernated is set: there are no pods, and volumes are kept; false wakes the cluster")
	case hibernation.FallingAsleep, hibernation.Waking:
		return no(string(plan.Stage), cmp.Or(plan.Waiting, "all components are starting"))
	case hibernation.Awake:
	}
	return no(reasonAwake, "spec.hibernated is not set")
}

// setConditions enters them, and returns the types of those that changed their status or
// reason.
func setConditions(into *[]metav1.Condition, verdicts map[string]verdict, generation int64, now metav1.Time) (changed []string) {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAvailable, v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded, v1alpha1.ConditionRebalancing, v1alpha1.ConditionHibernated, v1alpha1.ConditionBootstrapped, v1alpha1.ConditionNodesIdentified} {
		v, judged := verdicts[kind]
		if !judged {
			continue
		}
		before := meta.FindStatusCondition(*into, kind)
		if before == nil || before.Reason != v.reason || before.Status != v.status {
			changed = append(changed, kind)
		}
		meta.SetStatusCondition(into, metav1.Condition{
			Type: kind, Status: v.status, Reason: v.reason, Message: v.message[:min(len(v.message), messageBytesMax)],
			ObservedGeneration: generation, LastTransitionTime: now,
		})
	}
	return changed
}

// ready sums the others up for tools that wait for whatever they have applied, and know no other
// condition. A cluster that is degraded and works is ready.
func ready(available, progressing verdict) verdict {
	if available.status == metav1.ConditionTrue && progressing.reason != reasonComplete {
		available = progressing
	}
	if available.status == metav1.ConditionTrue && progressing.reason == reasonComplete {
		return yes(reasonComplete, "it works, and is as spec asks for")
	}
	return no(available.reason, available.message)
}

func (f *Facts) available() verdict {
	status := f.Nodes.Status
	switch {
	case f.Hibernation.Rests():
		return no(reasonHibernated, "spec.hibernated is set: no request is answered")
	case f.unmade():
		return no(reasonNoShardMap, "the cluster is not made yet: "+f.whyNoMap())
	case status == nil:
		return no(reasonNoRouter, fmt.Sprintf("no router answers: %v", cmp.Or(f.Nodes.StatusErr, f.Nodes.ViewErr)))
	case len(status.ShardStatuses) == 0:
		return no(reasonNoShardMap, "the routers have no shard map yet")
	}
	without := f.leaderless()
	if len(without) == 0 {
		return yes(reasonServing, fmt.Sprintf("all %d shards take writes and answer", status.Shards))
	}
	text := fmt.Sprintf("%d of %d shards have no leader that answers: %s", len(without), status.Shards, shortList(without))
	since := f.leaderlessSince()
	if f.Now.Sub(since.Time) < leaderlessGrace && meta.IsStatusConditionTrue(f.Cluster.Status.Conditions, v1alpha1.ConditionAvailable) {
		return yes(reasonServing, fmt.Sprintf("%s; since %s, which counts after %s", text, since.UTC().Format(time.RFC3339), leaderlessGrace))
	}
	return no(reasonNoLeader, text)
}

// leaderlessGrace is for how long shards may have no leader before the cluster is not
// available: a leadership that moves leaves none for a moment, and many move when copies
// were rebuilt. An election after a loss takes less, too.
const leaderlessGrace = 10 * time.Second

// leaderless returns the shards of which no leader answers; none, if nobody could be asked.
func (f *Facts) leaderless() (without []uint16) {
	if f.Nodes.Status == nil {
		return nil
	}
	for i := range f.Nodes.Status.ShardStatuses {
		if shard := &f.Nodes.Status.ShardStatuses[i]; shard.Leader == "" {
			without = append(without, uint16(shard.Shard))
		}
	}
	return without
}

// leaderlessSince returns since when some shards have no leader, as the status says or from
// now on; nil: all have one. While no router answers it stays.
func (f *Facts) leaderlessSince() *metav1.Time {
	switch since := f.Cluster.Status.LeaderlessSince; {
	case f.Hibernation.Rests():
		return nil
	case f.Nodes.Status == nil:
		return since
	case len(f.leaderless()) == 0:
		return nil
	case since != nil:
		return since
	}
	return &metav1.Time{Time: f.Now}
}

// unmade reports whether the cluster has no shard map yet. One that had a map has it still,
// whoever cannot be asked for it now.
func (f *Facts) unmade() bool {
	return f.Nodes.View.Map == nil && f.Nodes.Status == nil && f.Cluster.Status.Shards == 0
}

// whyNoMap returns what a new cluster waits for.
func (f *Facts) whyNoMap() string {
	switch {
	case f.Nodes.ViewErr != nil && f.Cluster.Spec.Etcd.Managed != nil && f.Etcd.Err != nil:
		return fmt.Sprintf("etcd: %v", f.Etcd.Err)
	case f.Nodes.ViewErr != nil:
		return f.Nodes.ViewErr.Error()
	}
	return fmt.Sprintf("%d of %d nodes are there", len(f.Nodes.View.Nodes), f.Cluster.Spec.NodeCount())
}

// nodesIdentified judges whether a node can call as another.
func (f *Facts) nodesIdentified() verdict {
	switch c := f.Cluster; {
	case !build.TLSEnabled(c):
		return no(reasonTLSOff, "spec.tls.mode is Off: whoever reaches the pods may call as any of them")
	case !build.NodesKeepKeys(c):
		return no(reasonShared, fmt.Sprintf("with spec.tls.mode %s all nodes share the certificate of the secret %s, so one of them may call as another: with Operator each has its own",
			c.Spec.TLS.Mode, build.TLSSecret(c, build.IdentityNode)))
	case f.Certificates.NodesShare:
		return no(reasonShared, "nodes share a certificate until the pods of an older operator are made anew")
	}
	return yes(reasonOwn, "each node has a certificate of its own")
}

func (f *Facts) progressing() verdict {
	plan := &f.Nodes.Plan
	if f.Cluster.Spec.Paused {
		return no(reasonPaused, "spec.paused is set: nothing is changed; certificates are renewed, and pods that are made anew start")
	}
	if failures := f.Failures; len(failures) > 0 {
		return yes(failures[0].Reason(), "it is tried again: "+Join(failures).Error())
	}
	switch f.Hibernation.Stage {
	case hibernation.Asleep:
		return no(reasonHibernated, f.hibernated().message)
	case hibernation.FallingAsleep, hibernation.Waking:
		return yes(string(f.Hibernation.Stage), f.hibernated().message)
	case hibernation.Awake:
	}
	for _, refusal := range plan.Refusals {
		return f.refused(refusal)
	}
	if f.VersionRefused != nil {
		return no(reasonVersionRefused, fmt.Sprintf("%v, or allow it with the annotation %s", f.VersionRefused, v1alpha1.AnnotationAllowVersion))
	}
	if len(plan.Actions) > 0 {
		a := plan.Actions[0]
		if waits := slices.IndexFunc(plan.Waits, func(w rollout.Wait) bool { return w.Node == a.Node && w.Reason == a.Reason }); waits >= 0 {
			return yes(string(a.Reason), waitText(plan.Waits[waits]))
		}
		return yes(string(a.Reason), fmt.Sprintf("%s %s", a.Kind, a.Group+a.Node))
	}
	for _, w := range plan.Waits {
		return yes(string(w.Reason), waitText(w))
	}
	if f.Cluster.Spec.Etcd.Managed != nil && (len(f.Etcd.Plan.Actions) > 0 || f.Etcd.Plan.Waiting != "") {
		return yes(reasonEtcdMembers, "etcd: "+f.etcdText())
	}
	for _, held := range f.Upgrade.Held {
		return yes(string(rollout.ReasonUpdating), fmt.Sprintf("%s is to be changed: %s", held.Component, held.Why))
	}
	if changed := slices.Concat(f.Upgrade.Changed, f.Upgrade.Restarted); len(changed) > 0 {
		return yes(string(rollout.ReasonUpdating), "pods are made anew: "+strings.Join(changed, ", "))
	}
	names := f.Certificates.NamesProblem
	if names != "" && !f.Certificates.NamesOptional {
		return no(reasonNames, names) // nothing starts before that
	}
	if ready := f.Seen.ReadyNodes(); ready < f.Nodes.Replicas() {
		return yes(reasonStarting, fmt.Sprintf("%d of %d nodes are ready", ready, f.Nodes.Replicas()))
	}
	if f.Seen.Router == nil || f.Seen.Router.Status.ReadyReplicas == 0 || inventory.MakesAnew(f.Seen.Router) {
		return yes(reasonStarting, "the routers are starting")
	}
	if f.Seen.Envoy != nil && inventory.MakesAnew(f.Seen.Envoy) {
		return yes(reasonStarting, "pods of Envoy are made anew")
	}
	if f.unmade() {
		return yes(string(rollout.ReasonCreating), "the cluster is not made yet: "+f.whyNoMap())
	}
	if f.Nodes.ViewErr != nil && f.Nodes.Status == nil {
		return verdict{metav1.ConditionUnknown, reasonUnknown, "neither etcd nor a router answers"}
	}
	return f.settled()
}

// settled judges a cluster in which nothing is under way.
func (f *Facts) settled() verdict {
	switch f.Bootstrap.Phase {
	case v1alpha1.BootstrapPending, v1alpha1.BootstrapRestoring:
		return yes(reasonBootstrap+string(f.Bootstrap.Phase), f.Bootstrap.Message)
	case v1alpha1.BootstrapFailed:
		return no(reasonBootstrapFailed, f.Bootstrap.Message)
	case v1alpha1.BootstrapComplete, v1alpha1.BootstrapSkipped:
	}
	if problem := f.Maintenance.Problem; problem != nil {
		return no(reasonBadMaintenance, problem.Error()+"; nothing is restarted for it")
	}
	if waiting := f.deferred(); len(waiting) > 0 {
		return yes(reasonMaintenance, fmt.Sprintf("%s: pods are to be made anew, and wait: %s; the annotation %s lets them begin before that",
			strings.Join(waiting, ", "), f.Maintenance.When(), v1alpha1.AnnotationMaintainUntil))
	}
	if unknown := f.Nodes.Plan.Unknown; len(unknown) > 0 {
		return no(reasonUnknownNode, "spec.nodes.drained names "+strings.Join(unknown, ", ")+", and there is no such node; all else is as spec asks for")
	}
	if names := f.Certificates.NamesProblem; names != "" {
		return no(reasonNames, names)
	}
	if problem := f.Nodes.Plan.VolumesRefused; problem != "" {
		return no(reasonNoClass, problem+"; all else is as spec asks for")
	}
	if len(f.VolumesRefused) > 0 {
		return no(reasonVolumesRefused, strings.Join(f.VolumesRefused, "; ")+"; all else is as spec asks for")
	}
	if kinds := f.monitorsLeftOut(); len(kinds) > 0 {
		return no(reasonNoMonitors, fmt.Sprintf("spec.monitoring asks for a %s, and Kubernetes has no such kind: install the Prometheus operator, or do not ask; all else is as spec asks for",
			strings.Join(kinds, " and a ")))
	}
	return no(reasonComplete, "the cluster is as spec asks for")
}

// deferred returns the components whose pods wait for a maintenance window.
func (f *Facts) deferred() []string {
	pods := map[string]int{build.ComponentEtcd: f.Etcd.Plan.Deferred, build.ComponentNode: f.Nodes.Plan.Deferred + f.Nodes.Plan.VolumesDeferred}
	return slices.DeleteFunc(build.Restartable(f.Cluster), func(component string) bool {
		return pods[component] == 0 && !slices.Contains(f.Upgrade.Deferred, component)
	})
}

// maintenanceStatus returns the windows' part of the status; nil: there are none.
func (f *Facts) maintenanceStatus() *v1alpha1.MaintenanceStatus {
	if spec := f.Cluster.Spec.Maintenance; spec == nil || len(spec.Windows) == 0 {
		return nil
	}
	s := &v1alpha1.MaintenanceStatus{Open: f.Maintenance.Open, Waiting: f.deferred()}
	if until := f.Maintenance.Until; !until.IsZero() {
		s.Until = &metav1.Time{Time: until}
	}
	return s
}

func (f *Facts) etcdText() string {
	if f.Etcd.Plan.Waiting != "" {
		return f.Etcd.Plan.Waiting
	}
	return f.Etcd.Plan.Actions[0].Why
}

func waitText(w rollout.Wait) string {
	if w.Node == "" {
		return w.Why
	}
	return w.Node + ": " + w.Why
}

func (f *Facts) degraded() verdict {
	var problems []verdict
	add := func(reason, message string) { problems = append(problems, yes(reason, message)) }
	for _, loss := range f.Nodes.Plan.Losses {
		add(string(loss.Reason), lossText(loss))
	}
	for _, failure := range f.Failures {
		add(failure.Reason(), failure.Err.Error())
	}
	if len(f.Certificates.Expired) > 0 {
		add(reasonCertificates, "certificates have ended: "+strings.Join(f.Certificates.Expired, ", "))
	}
	if text := f.Etcd.Plan.QuorumLost; text != "" {
		add(ReasonEtcdQuorumLost, "etcd: "+text+"; nodes and routers serve on")
	}
	for _, ordinal := range f.Etcd.Plan.Lost {
		add(reasonEtcdMemberLost, build.PodName(f.Cluster, build.ComponentEtcd, int32(ordinal))+" has lost its volume or machine. "+f.Etcd.Plan.Waiting)
	}
	if message, is := f.storeProblem(); is != "" {
		add(is, message)
	}
	if f.Nodes.Status != nil {
		for i := range f.Nodes.Status.Nodes {
			if n := &f.Nodes.Status.Nodes[i]; n.Refusal != "" {
				add(reasonNoWrites, fmt.Sprintf("node %s takes no writes: %s", n.Node, n.Refusal))
			}
		}
	}
	if f.Nodes.ViewErr == nil && f.Nodes.Summary.UnderReplicated > 0 {
		add(reasonUnderReplicated, fmt.Sprintf("%d shards have fewer than %d live copies", f.Nodes.Summary.UnderReplicated, f.Nodes.View.Map.Settings.Replication))
	}
	if len(problems) == 0 {
		// While no router answers nobody knows whether the node takes writes again.
		before := meta.FindStatusCondition(f.Cluster.Status.Conditions, v1alpha1.ConditionDegraded)
		if f.Nodes.StatusErr != nil && before != nil && before.Reason == reasonNoWrites {
			return yes(reasonNoWrites, before.Message)
		}
		return no(reasonAsExpected, "nothing is broken")
	}
	messages := make([]string, 0, len(problems))
	for _, problem := range problems {
		messages = append(messages, problem.message)
	}
	return yes(problems[0].reason, strings.Join(messages, "; "))
}

// storeProblem returns what is wrong with the placement store of a cluster that was made.
func (f *Facts) storeProblem() (message, reason string) {
	err := f.Nodes.ViewErr
	switch {
	case err == nil || f.Cluster.Status.Shards == 0 || f.Hibernation.Stage != hibernation.Awake:
		return "", ""
	case errors.Is(err, shardmap.ErrRolledBack), errors.Is(err, shardmap.ErrWrongCluster):
		return fmt.Sprintf("the placement store: %v; %s", err, f.Rescue), ReasonStoreLost
	}
	return fmt.Sprintf("the placement store does not answer, all but placement works: %v", err), reasonEtcdUnavailable
}

// lossText returns what is lost, and what waits for it.
func lossText(l rollout.Loss) string {
	text := fmt.Sprintf("the volume of %s is lost or being deleted", l.Node)
	if l.Reason == rollout.ReasonMachineLost {
		text = fmt.Sprintf("machine %s is lost, and with it %s", l.Machine, l.Node)
	}
	switch {
	case l.Unknown:
		text += "; which shards need it is not known, as no router answers"
	case len(l.Shards) > 0:
		text += fmt.Sprintf("; %d shards wait for it: %s", len(l.Shards), shortList(l.Shards))
	default:
		text += "; no shard needs it"
	}
	return text
}

func (f *Facts) rebalancing() verdict {
	switch {
	case f.Nodes.ViewErr != nil || f.Nodes.View.Map == nil:
		return verdict{metav1.ConditionUnknown, reasonUnknown, "the shard map is not known"}
	case f.Nodes.Summary.Moving == 0:
		return no(reasonBalanced, "no copies move")
	}
	return yes(reasonMoving, fmt.Sprintf("copies of %d shards are on their way", f.Nodes.Summary.Moving))
}

const shownMax = 16

func shortList(shards []uint16) string {
	shown := slices.Clone(shards[:min(len(shards), shownMax)])
	words := make([]string, 0, len(shown)+1)
	for _, shard := range shown {
		words = append(words, fmt.Sprint(shard))
	}
	if len(shards) > shownMax {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// monitorsLeftOut returns the kinds of monitors that are asked for and that Kubernetes does
// not have.
func (f *Facts) monitorsLeftOut() (kinds []string) {
	if f.Cluster.Spec.Monitoring.PodMonitor && !f.Seen.PodMonitors {
		kinds = append(kinds, build.KindPodMonitor)
	}
	if f.Cluster.Spec.Monitoring.ServiceMonitor && !f.Seen.ServiceMonitors {
		kinds = append(kinds, build.KindServiceMonitor)
	}
	return kinds
}
