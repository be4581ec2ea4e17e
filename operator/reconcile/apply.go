package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tickmesh/tickmesh/operator/ownership"
)

// stamp is what an object was when it was applied last.
type stamp struct {
	hash    [sha256.Size]byte
	version string // resource version that it had then
}

// apply brings an object to what it is to be, unless nothing has changed since that was
// done last.
func (p *pass) apply(ctx context.Context, object client.Object) error {
	if err := p.inTurn(object); err != nil {
		return err
	}
	wanted, err := p.applicable(object)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(wanted.Object)
	if err != nil {
		return fmt.Errorf("encode %s: %w", describe(wanted), err)
	}
	key, hash := wanted.GetKind()+"/"+wanted.GetName(), sha256.Sum256(encoded)
	if was, done := p.memory.applied[key]; done && was.hash == hash && was.version == p.presentVersion(ctx, wanted) {
		return nil
	}
	name := describe(wanted)
	if err := p.claim(ctx, wanted); err != nil {
		return err
	}
	if err := p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s: %w", name, err)
	}
	if p.memory.applied == nil {
		p.memory.applied = map[string]stamp{}
	}
	p.memory.applied[key] = stamp{hash, wanted.GetResourceVersion()}
	return nil
}

// claim makes sure that an object under one of the cluster's names is the cluster's. One that
// is there is applied with its UID, so that none is taken over that was made meanwhile in
// its place. Errors: *ownership.ForeignError.
func (p *pass) claim(ctx context.Context, wanted *unstructured.Unstructured) error {
	present := &metav1.PartialObjectMetadata{}
	present.SetGroupVersionKind(wanted.GroupVersionKind())
	found, err := p.get(ctx, p.Reader, wanted.GetName(), present)
	if err != nil {
		return fmt.Errorf("look for %s: %w", describe(wanted), err)
	}
	if !found {
		return nil
	}
	wanted.SetUID(present.GetUID())
	return ownership.CheckObject(p.cluster, wanted.GetKind(), present)
}

// presentVersion returns the resource version of an object that is there; empty: it is not,
// or nobody knows.
func (p *pass) presentVersion(ctx context.Context, wanted *unstructured.Unstructured) string {
	typed, err := p.Client.Scheme().New(wanted.GroupVersionKind())
	if err != nil {
		typed = &unstructured.Unstructured{}
		typed.GetObjectKind().SetGroupVersionKind(wanted.GroupVersionKind())
	}
	object, ok := typed.(client.Object)
	if !ok || p.Client.Get(ctx, client.ObjectKeyFromObject(wanted), object) != nil {
		return ""
	}
	return object.GetResourceVersion()
}

// applicable returns an object without what only the server fills in.
func (p *pass) applicable(object client.Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(object, p.Client.Scheme())
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", kind.Kind, object.GetName(), err)
	}
	delete(content, "status")
	dropNulls(content)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// dropNulls takes out keys without a value, such as times of creation: to apply them
// would be to own them.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if inner == nil {
				delete(v, key)
				continue
			}
			dropNulls(inner)
		}
	case []any:
		for _, inner := range v {
			dropNulls(inner)
		}
	}
}

// remove deletes an object that is there and ours.
func (p *pass) remove(ctx context.Context, object client.Object) error {
	kind, err := apiutil.GVKForObject(object, p.Client.Scheme())
	if err != nil {
		return err
	}
	present, err := p.newObject(kind)
	if err != nil {
		return err
	}
	err = p.Client.Get(ctx, client.ObjectKeyFromObject(object), present)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for %s %s: %w", kind.Kind, object.GetName(), err)
	case !p.owns(present) || present.GetDeletionTimestamp() != nil:
		return nil
	}
	uid := present.GetUID()
	if err := p.Client.Delete(ctx, present, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", kind.Kind, object.GetName(), err)
	}
	delete(p.memory.applied, kind.Kind+"/"+object.GetName())
	return nil
}

func (p *pass) newObject(kind schema.GroupVersionKind) (client.Object, error) {
	typed, err := p.Client.Scheme().New(kind)
	if err != nil {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		return u, nil //nolint:nilerr // a kind of others
	}
	object, ok := typed.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object", kind)
	}
	return object, nil
}

// owns reports whether the cluster is the controller of an object.
func (p *pass) owns(object client.Object) bool {
	return metav1.IsControlledBy(object, p.cluster)
}

func describe(u *unstructured.Unstructured) string { return u.GetKind() + " " + u.GetName() }
