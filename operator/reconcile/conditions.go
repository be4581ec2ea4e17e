package reconcile

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
	reasonStarting        = "Starting"
	reasonEtcdMembers     = "EtcdMembers"
	reasonAsExpected      = "AsExpected"
	reasonEtcdUnavailable = "EtcdUnavailable"
	reasonEtcdMemberLost  = "EtcdMemberLost"
	reasonEtcdQuorumLost  = "EtcdQuorumLost"
	reasonStoreLost       = "ShardMapLost"
	reasonUnderReplicated = "UnderReplicated"
	reasonCertificates    = "CertificateExpired"
	reasonMoving          = "Moving"
	reasonBalanced        = "Balanced"
	reasonUnknown         = "Unknown"
	reasonVersionRefused  = "VersionRefused"
	reasonNameTaken       = "NameTaken"
	reasonFailed          = "Failed" // after the name of a step
)

// messageBytesMax is less than what the schema of conditions allows.
const messageBytesMax = 4096

// verdict is what a condition says.
type verdict struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

func yes(reason, message string) verdict { return verdict{metav1.ConditionTrue, reason, message} }
func no(reason, message string) verdict  { return verdict{metav1.ConditionFalse, reason, message} }

// conditions returns the conditions of now.
func (p *pass) conditions(summary shardmap.Summary) map[string]verdict {
	return map[string]verdict{
		v1alpha1.ConditionAvailable:   p.available(),
		v1alpha1.ConditionProgressing: p.progressing(),
		v1alpha1.ConditionDegraded:    p.degraded(summary),
		v1alpha1.ConditionRebalancing: p.rebalancing(summary),
	}
}

// setConditions enters them, and returns the types of those that changed their status or
// reason.
func setConditions(into *[]metav1.Condition, verdicts map[string]verdict, generation int64, now metav1.Time) (changed []string) {
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionProgressing, v1alpha1.ConditionDegraded, v1alpha1.ConditionRebalancing} {
		v := verdicts[kind]
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

func (p *pass) available() verdict {
	status := p.nodes.status
	switch {
	case p.unmade():
		return no(reasonNoShardMap, "the cluster is not made yet: "+p.whyNoMap())
	case status == nil:
		return no(reasonNoRouter, fmt.Sprintf("no router answers: %v", cmp.Or(p.nodes.statusErr, p.nodes.viewErr)))
	case len(status.ShardStatuses) == 0:
		return no(reasonNoShardMap, "the routers have no shard map yet")
	}
	without := p.leaderless()
	if len(without) == 0 {
		return yes(reasonServing, fmt.Sprintf("all %d shards take writes and answer", status.Shards))
	}
	text := fmt.Sprintf("%d of %d shards have no leader that answers: %s", len(without), status.Shards, shortList(without))
	since := p.leaderlessSince()
	if p.now.Sub(since.Time) < leaderlessGrace && meta.IsStatusConditionTrue(p.cluster.Status.Conditions, v1alpha1.ConditionAvailable) {
		return yes(reasonServing, fmt.Sprintf("%s; since %s, which counts after %s", text, since.UTC().Format(time.RFC3339), leaderlessGrace))
	}
	return no(reasonNoLeader, text)
}

// leaderlessGrace is for how long shards may have no leader before the cluster is not
// available: a leadership that moves leaves none for a moment, and many move when copies
// were rebuilt. An election after a loss takes less, too.
const leaderlessGrace = 10 * time.Second

// leaderless returns the shards of which no leader answers; none, if nobody could be asked.
func (p *pass) leaderless() (without []uint16) {
	if p.nodes.status == nil {
		return nil
	}
	for i := range p.nodes.status.ShardStatuses {
		if shard := &p.nodes.status.ShardStatuses[i]; shard.Leader == "" {
			without = append(without, uint16(shard.Shard))
		}
	}
	return without
}

// leaderlessSince returns since when some shards have no leader, as the status says or from
// now on; nil: all have one. While no router answers it stays.
func (p *pass) leaderlessSince() *metav1.Time {
	switch since := p.cluster.Status.LeaderlessSince; {
	case p.nodes.status == nil:
		return since
	case len(p.leaderless()) == 0:
		return nil
	case since != nil:
		return since
	}
	return &metav1.Time{Time: p.now}
}

// unmade reports whether the cluster has no shard map yet. One that had a map has it still,
// whoever cannot be asked for it now.
func (p *pass) unmade() bool {
	return p.nodes.view.Map == nil && p.nodes.status == nil && p.cluster.Status.Shards == 0
}

// whyNoMap returns what a new cluster waits for.
func (p *pass) whyNoMap() string {
	switch {
	case p.nodes.viewErr != nil && managedEtcd(p.cluster) && p.etcd.err != nil:
		return fmt.Sprintf("etcd: %v", p.etcd.err)
	case p.nodes.viewErr != nil:
		return p.nodes.viewErr.Error()
	}
	return fmt.Sprintf("%d of %d nodes are there", len(p.nodes.view.Nodes), p.cluster.Spec.Nodes.Count)
}

func (p *pass) progressing() verdict {
	plan := &p.nodes.plan
	if p.cluster.Spec.Paused {
		return no(reasonPaused, "spec.paused is set: nothing is changed; certificates are renewed, and pods that are made anew start")
	}
	if failures := broken(p.failures); len(failures) > 0 {
		return yes(failures[0].reason(), "it is tried again: "+problem(failures).Error())
	}
	for _, refusal := range plan.Refusals {
		return p.refused(refusal)
	}
	if p.versionRefused != nil {
		return no(reasonVersionRefused, fmt.Sprintf("%v, or allow it with the annotation %s", p.versionRefused, v1alpha1.AnnotationAllowVersion))
	}
	if len(plan.Actions) > 0 {
		a := plan.Actions[0]
		if waits := slices.IndexFunc(plan.Waits, func(w rollout.Wait) bool { return w.Node == a.Node && w.Reason == a.Reason }); waits >= 0 {
			return yes(string(a.Reason), waitText(plan.Waits[waits]))
		}
		return yes(string(a.Reason), fmt.Sprintf("%s %s", a.Kind, a.Node))
	}
	for _, w := range plan.Waits {
		return yes(string(w.Reason), waitText(w))
	}
	if managedEtcd(p.cluster) && (len(p.etcd.plan.Actions) > 0 || p.etcd.plan.Waiting != "") {
		return yes(reasonEtcdMembers, "etcd: "+p.etcdText())
	}
	for _, held := range p.upgrade.Held {
		return yes(string(rollout.ReasonUpdating), fmt.Sprintf("%s is to be changed: %s", held.Component, held.Why))
	}
	if changed := p.upgrade.Changed; len(changed) > 0 {
		return yes(string(rollout.ReasonUpdating), "pods are made anew: "+strings.Join(changed, ", "))
	}
	names := p.namesProblem()
	if names != "" && !p.namesOptional() {
		return no(reasonNames, names) // nothing starts before that
	}
	if ready := p.readyNodes(); ready < p.nodes.replicas {
		return yes(reasonStarting, fmt.Sprintf("%d of %d nodes are ready", ready, p.nodes.replicas))
	}
	if p.seen.router == nil || p.seen.router.Status.ObservedGeneration < p.seen.router.Generation || p.seen.router.Status.UpdatedReplicas < p.seen.router.Status.Replicas ||
		p.seen.router.Status.ReadyReplicas == 0 {
		return yes(reasonStarting, "the routers are starting")
	}
	if p.unmade() {
		return yes(string(rollout.ReasonCreating), "the cluster is not made yet: "+p.whyNoMap())
	}
	if p.nodes.viewErr != nil && p.nodes.status == nil {
		return verdict{metav1.ConditionUnknown, reasonUnknown, "neither etcd nor a router answers"}
	}
	if len(plan.Unknown) > 0 {
		return no(reasonUnknownNode, "spec.nodes.drained names "+strings.Join(plan.Unknown, ", ")+", and there is no such node; all else is as spec asks for")
	}
	if names != "" {
		return no(reasonNames, names)
	}
	if len(p.volumesRefused) > 0 {
		return no(reasonVolumesRefused, strings.Join(p.volumesRefused, "; ")+"; all else is as spec asks for")
	}
	if kinds := p.monitorsLeftOut(); len(kinds) > 0 {
		return no(reasonNoMonitors, fmt.Sprintf("spec.monitoring asks for a %s, and Kubernetes has no such kind: install the Prometheus operator, or do not ask; all else is as spec asks for",
			strings.Join(kinds, " and a ")))
	}
	return no(reasonComplete, "the cluster is as spec asks for")
}

func (p *pass) etcdText() string {
	if p.etcd.plan.Waiting != "" {
		return p.etcd.plan.Waiting
	}
	return p.etcd.plan.Actions[0].Why
}

func waitText(w rollout.Wait) string {
	if w.Node == "" {
		return w.Why
	}
	return w.Node + ": " + w.Why
}

// refused returns what is refused, and what to do.
func (p *pass) refused(r rollout.Refusal) verdict {
	what, undo := "drain", "take its name from spec.nodes.drained"
	reason := reasonDrainRefused
	if r.Scale || r.Begun && p.nodes.replicas > int(p.cluster.Spec.Nodes.Count) {
		what, undo, reason = "scale-in", fmt.Sprintf("set spec.nodes.count back to %d", p.nodes.replicas), reasonScaleRefused
	}
	begun := "it is not begun"
	if r.Begun {
		begun = "it cannot go on"
	}
	return no(reason, fmt.Sprintf("%s of %s: %s: %v; %s, or wait until it is possible: it is tried again", what, strings.Join(r.Nodes, ", "), begun, errText(r.Err), undo))
}

// errText leaves out the nodes, which were just named.
func errText(err error) string {
	var drain *shardmap.DrainError
	if !errors.As(err, &drain) {
		return err.Error()
	}
	if len(drain.Shards) == 0 {
		return drain.Kind.Error()
	}
	return fmt.Sprintf("%v (%d shards: %s)", drain.Kind, len(drain.Shards), shortList(drain.Shards))
}

func (p *pass) degraded(summary shardmap.Summary) verdict {
	var problems []verdict
	add := func(reason, message string) { problems = append(problems, yes(reason, message)) }
	for _, loss := range p.nodes.plan.Losses {
		add(string(loss.Reason), lossText(loss))
	}
	for _, f := range broken(p.failures) {
		add(f.reason(), f.err.Error())
	}
	if len(p.secrets.expired) > 0 {
		add(reasonCertificates, "certificates have ended: "+strings.Join(p.secrets.expired, ", "))
	}
	if text := p.etcd.plan.QuorumLost; text != "" {
		add(reasonEtcdQuorumLost, "etcd: "+text+"; nodes and routers serve on")
	}
	for _, ordinal := range p.etcd.plan.Lost {
		add(reasonEtcdMemberLost, p.etcdName(ordinal)+" has lost its volume or machine. "+p.etcd.plan.Waiting)
	}
	if message, is := p.storeProblem(); is != "" {
		add(is, message)
	}
	if p.nodes.viewErr == nil && summary.UnderReplicated > 0 {
		add(reasonUnderReplicated, fmt.Sprintf("%d shards have fewer than %d live copies", summary.UnderReplicated, p.nodes.view.Map.Settings.Replication))
	}
	if len(problems) == 0 {
		return no(reasonAsExpected, "nothing is broken")
	}
	messages := make([]string, 0, len(problems))
	for _, problem := range problems {
		messages = append(messages, problem.message)
	}
	return yes(problems[0].reason, strings.Join(messages, "; "))
}

// storeProblem returns what is wrong with the placement store of a cluster that was made.
func (p *pass) storeProblem() (message, reason string) {
	err := p.nodes.viewErr
	switch {
	case err == nil || !p.wasMade():
		return "", ""
	case errors.Is(err, shardmap.ErrRolledBack), errors.Is(err, shardmap.ErrWrongCluster):
		return fmt.Sprintf("the placement store: %v; %s", err, p.rescueText()), reasonStoreLost
	}
	return fmt.Sprintf("the placement store does not answer, all but placement works: %v", err), reasonEtcdUnavailable
}

// wasMade reports whether the cluster was available once.
func (p *pass) wasMade() bool { return p.cluster.Status.Shards > 0 }

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

func (p *pass) rebalancing(summary shardmap.Summary) verdict {
	switch {
	case p.nodes.viewErr != nil || p.nodes.view.Map == nil:
		return verdict{metav1.ConditionUnknown, reasonUnknown, "the shard map is not known"}
	case summary.Moving == 0:
		return no(reasonBalanced, "no copies move")
	}
	return yes(reasonMoving, fmt.Sprintf("copies of %d shards are on their way", summary.Moving))
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
