package objects

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

// Applied is what objects were when they were applied last, by kind and name. One that is empty
// makes Apply apply them again.
type Applied map[string]stamp

// stamp is what an object was when it was applied last.
type stamp struct {
	hash    [sha256.Size]byte
	version string // resource version that it had then
}

// Apply brings an object to what it is to be, unless nothing has changed since that was
// done last. Errors: *ownership.ForeignError, if it is somebody else's.
func (c *Client) Apply(ctx context.Context, object client.Object) error {
	wanted, err := c.applicable(object)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(wanted.Object)
	if err != nil {
		return fmt.Errorf("encode %s: %w", describe(wanted), err)
	}
	key, hash := wanted.GetKind()+"/"+wanted.GetName(), sha256.Sum256(encoded)
	if was, done := c.applied[key]; done && was.hash == hash && was.version == c.presentVersion(ctx, wanted) {
		return nil
	}
	name := describe(wanted)
	if err := c.claim(ctx, wanted); err != nil {
		return err
	}
	if err := c.Cached.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s: %w", name, err)
	}
	c.applied[key] = stamp{hash, wanted.GetResourceVersion()}
	return nil
}

// claim makes sure that an object under one of the cluster's names is the cluster's. One that
// is there is applied with its UID, so that none is taken over that was made meanwhile in
// its place. Errors: *ownership.ForeignError.
func (c *Client) claim(ctx context.Context, wanted *unstructured.Unstructured) error {
	present := &metav1.PartialObjectMetadata{}
	present.SetGroupVersionKind(wanted.GroupVersionKind())
	found, err := c.FindLive(ctx, wanted.GetName(), present)
	if err != nil {
		return fmt.Errorf("look for %s: %w", describe(wanted), err)
	}
	if !found {
		return nil
	}
	wanted.SetUID(present.GetUID())
	return ownership.CheckObject(c.cluster, wanted.GetKind(), present)
}

// presentVersion returns the resource version of an object that is there; empty: it is not,
// or that is unknown.
func (c *Client) presentVersion(ctx context.Context, wanted *unstructured.Unstructured) string {
	typed, err := c.Cached.Scheme().New(wanted.GroupVersionKind())
	if err != nil {
		typed = &unstructured.Unstructured{}
		typed.GetObjectKind().SetGroupVersionKind(wanted.GroupVersionKind())
	}
	object, ok := typed.(client.Object)
	if !ok || c.Cached.Get(ctx, client.ObjectKeyFromObject(wanted), object) != nil {
		return ""
	}
	return object.GetResourceVersion()
}

// applicable returns an object without what only the server fills in.
func (c *Client) applicable(object client.Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(object, c.Cached.Scheme())
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

// Remove deletes an object that is there and ours.
func (c *Client) Remove(ctx context.Context, object client.Object) error {
	kind, err := apiutil.GVKForObject(object, c.Cached.Scheme())
	if err != nil {
		return err
	}
	present, err := c.newObject(kind)
	if err != nil {
		return err
	}
	err = c.Cached.Get(ctx, client.ObjectKeyFromObject(object), present)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for %s %s: %w", kind.Kind, object.GetName(), err)
	case !c.Owns(present) || present.GetDeletionTimestamp() != nil:
		return nil
	}
	uid := present.GetUID()
	if err := c.Cached.Delete(ctx, present, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", kind.Kind, object.GetName(), err)
	}
	delete(c.applied, kind.Kind+"/"+object.GetName())
	return nil
}

func (c *Client) newObject(kind schema.GroupVersionKind) (client.Object, error) {
	typed, err := c.Cached.Scheme().New(kind)
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

// Owns reports whether the cluster is the controller of an object.
func (c *Client) Owns(object client.Object) bool {
	return metav1.IsControlledBy(object, c.cluster)
}

func describe(u *unstructured.Unstructured) string { return u.GetKind() + " " + u.GetName() }
