package reconcile

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
	"github.com/tickmesh/tickmesh/operator/etcd"
	"github.com/tickmesh/tickmesh/operator/inventory"
)

// etcdRecord is what is written down of a managed etcd, in the status and on claims: nobody
// can be asked when it has no majority.
type etcdRecord struct {
	cluster *v1alpha1.TickMeshCluster
	seen    *inventory.Inventory
	now     time.Time
}

// history adds what decisions about etcd need of its past: the status has it, since
// nobody can be asked when etcd has no majority.
func (r etcdRecord) history(f *etcd.Facts) {
	f.Generation = r.generation()
	// Who writes no number asks for nothing.
	f.Asked, _ = strconv.ParseInt(r.cluster.Annotations[v1alpha1.AnnotationRebuildEtcd], 10, 64)
	status := r.cluster.Status.Etcd
	if status == nil {
		return
	}
	f.Rebuild = etcd.Phase(status.Rebuild)
	if status.UnavailableSince != nil {
		f.UnavailableMs = max(r.now.Sub(status.UnavailableSince.Time).Milliseconds(), 0)
	}
	for i := range status.Members {
		m := &status.Members[i]
		if ordinal, ok := inventory.Ordinal(m.Name, build.Name(r.cluster, build.ComponentEtcd)); ok && ordinal < etcdMembersMax {
			f.Known = append(f.Known, etcd.Known{Ordinal: ordinal, ClaimUID: m.ClaimUID, Learner: m.Learner})
		}
	}
}

// generation returns how often a new etcd took the place of a lost one, as the status or
// the ConfigMap says that members start with.
func (r etcdRecord) generation() int64 {
	generation := r.seen.EtcdGeneration
	if status := r.cluster.Status.Etcd; status != nil {
		generation = max(generation, status.Generation)
	}
	return generation
}

// isNoted reports whether a claim says that it has data of a member: then the etcd has
// answered before, even if the status was lost.
func (r etcdRecord) isNoted() bool {
	for _, claim := range r.seen.EtcdClaims {
		if claim.Annotations[annotationEtcdMember] != "" {
			return true
		}
	}
	return false
}

// status returns the status of a managed etcd of which this is known now; nil: it is not managed.
func (r etcdRecord) status(view etcd.View) *v1alpha1.EtcdStatus {
	if r.cluster.Spec.Etcd.Managed == nil {
		return nil
	}
	s := &v1alpha1.EtcdStatus{}
	if old := r.cluster.Status.Etcd; old != nil {
		s = old.DeepCopy()
	}
	s.Generation = r.generation()
	if len(view.Members) == 0 {
		r.silent(s)
		return s
	}
	s.ClusterID, s.UnavailableSince, s.Members, s.ReadyMembers = view.ClusterID, nil, nil, 0
	if s.Rebuild == v1alpha1.EtcdRebuildMaking {
		s.Rebuild = "" // it is there
	}
	for i := range view.Members {
		m := &view.Members[i]
		if m.Name == "" {
			continue // it has never started
		}
		s.Members = append(s.Members, v1alpha1.EtcdMemberStatus{
			Name: m.Name, ID: strconv.FormatUint(m.ID, 16), Healthy: m.Healthy, Learner: m.Learner, ClaimUID: r.claimUID(m),
		})
		if m.Healthy && !m.Learner {
			s.ReadyMembers++
		}
	}
	slices.SortFunc(s.Members, func(a, b v1alpha1.EtcdMemberStatus) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// silent notes that no member is known to be healthy, and since when.
func (r etcdRecord) silent(s *v1alpha1.EtcdStatus) {
	s.ReadyMembers = 0
	if r.seen.IsStopped(build.ComponentEtcd) {
		s.UnavailableSince = nil // it is asked from when it starts
	}
	for i := range s.Members {
		s.Members[i].Healthy = false
	}
	if s.UnavailableSince == nil && !r.seen.IsStopped(build.ComponentEtcd) && (s.ClusterID != "" || r.isNoted()) {
		s.UnavailableSince = &metav1.Time{Time: r.now}
	}
}

// claimUID returns the claim that has the data of a member: what is known of it stays
// until it is known otherwise.
func (r etcdRecord) claimUID(m *etcd.Member) string {
	ordinal, ok := inventory.Ordinal(m.Name, build.Name(r.cluster, build.ComponentEtcd))
	if !ok {
		return ""
	}
	if claim := r.seen.EtcdClaims[ordinal]; claim != nil && claim.Annotations[annotationEtcdMember] == strconv.FormatUint(m.ID, 16) {
		return string(claim.UID)
	}
	if old := r.cluster.Status.Etcd; old != nil {
		for i := range old.Members {
			if old.Members[i].ID == strconv.FormatUint(m.ID, 16) {
				return old.Members[i].ClaimUID
			}
		}
	}
	return ""
}
