package controller_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// writes counts what is written to the API server, by kind and namespace, so that clients know whether what they have
// read is still what the server would answer. A pass of an operator reads seventy objects, a step of a world another
// forty, and most steps wait for something and write little: without this, four fifths of the time of these tests are
// answers that are known.
type writes struct {
	mu     sync.Mutex
	counts map[place]uint64
	all    uint64 // writes of which nobody knows where
}

// place is an object, or all of a kind in a namespace.
type place struct {
	kind      schema.GroupKind // none: any
	namespace string           // "": everywhere, or beside all
	name      string           // "": any
}

// note counts a write for its object, for its kind in the namespace and for its kind everywhere.
func (w *writes) note(kind schema.GroupKind, namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range slices.Compact([]place{{kind, namespace, name}, {kind, namespace, ""}, {kind, "", ""}}) {
		w.counts[p]++
	}
}

// count changes with each write to a place.
func (w *writes) count(p place) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[p] + w.counts[place{namespace: p.namespace}] + w.all
}

// noteAll counts a write that may have changed anything anywhere.
func (w *writes) noteAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all++
}

// question is a Get or List.
type question struct {
	of     reflect.Type // of the object that is read into
	kind   schema.GroupVersionKind
	listed string // what a List asks for
	place
}

// reply is what was answered to a question when so much had been written.
type reply struct {
	count  uint64
	object runtime.Object // nil: there is an error
	err    error
}

// reader remembers what one client has read.
type reader struct {
	writes *writes
	inner  client.WithWatch
	mu     sync.Mutex
	known  map[question]reply
}

// remembering returns a client that asks the server again only after somebody may have changed the answer, by any client
// that this has returned: nobody else may write where it reads. All answers are those that the server has given to this
// client's user.
func (w *writes) remembering(inner client.WithWatch) client.WithWatch {
	r := &reader{writes: w, inner: inner, known: map[question]reply{}}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			get := func() error { return c.Get(ctx, key, o, opts...) }
			if len(opts) > 0 {
				return get()
			}
			return r.read(o, place{namespace: key.Namespace, name: key.Name}, "", get)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			what := *o.AsListOptions()
			return r.read(list, place{namespace: o.Namespace}, what.String(), func() error { return c.List(ctx, list, opts...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			defer r.wrote(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			defer r.wrote(o)
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			defer r.wrote(o)
			return c.Delete(ctx, o, opts...)
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			defer r.wroteAny((&client.DeleteAllOfOptions{}).ApplyOptions(opts).Namespace)
			return c.DeleteAllOf(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			defer r.wrote(o)
			return c.Patch(ctx, o, patch, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			defer r.applied(o)
			return c.Apply(ctx, o, opts...)
		},
		// What a subresource changes beside its object is its own matter: an eviction changes a budget.
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, made client.Object, opts ...client.SubResourceCreateOption) error {
			defer r.wroteAny(o.GetNamespace())
			return c.SubResource(sub).Create(ctx, o, made, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			defer r.wrote(o)
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			defer r.wrote(o)
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			defer r.applied(o)
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
	})
}

// read answers from memory, or by get, which reads into the object.
func (r *reader) read(into runtime.Object, at place, listed string, get func() error) error {
	kind, err := apiutil.GVKForObject(into, r.inner.Scheme())
	if err != nil {
		return err
	}
	at.kind = schema.GroupKind{Group: kind.Group, Kind: strings.TrimSuffix(kind.Kind, "List")}
	q := question{reflect.TypeOf(into), kind, listed, at}
	count := r.writes.count(q.place)
	r.mu.Lock()
	known, ok := r.known[q]
	r.mu.Unlock()
	if ok && known.count == count {
		if known.err == nil {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(known.object.DeepCopyObject()).Elem())
		}
		return known.err
	}
	answer := reply{count: count, err: get()}
	switch {
	case answer.err == nil:
		answer.object = into.DeepCopyObject()
	case !apierrors.IsNotFound(answer.err):
		return answer.err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[q] = answer
	return answer.err
}

func (r *reader) wrote(o client.Object) {
	kind, err := apiutil.GVKForObject(o, r.inner.Scheme())
	if err != nil {
		r.wroteAny(o.GetNamespace())
		return
	}
	r.writes.note(kind.GroupKind(), o.GetNamespace(), o.GetName())
}

// applied is wrote for a configuration, which tells of its kind only if it is made of an unstructured object.
func (r *reader) applied(o runtime.ApplyConfiguration) {
	if u, ok := o.(interface {
		GetNamespace() string
		GetName() string
		GroupVersionKind() schema.GroupVersionKind
	}); ok {
		r.writes.note(u.GroupVersionKind().GroupKind(), u.GetNamespace(), u.GetName())
		return
	}
	r.wroteAny("")
}

// wroteAny notes that anything in a namespace may have changed; "": anything anywhere.
func (r *reader) wroteAny(namespace string) {
	if namespace == "" {
		r.writes.noteAll()
		return
	}
	r.writes.note(schema.GroupKind{}, namespace, "")
}

// TestRememberedReads writes by two clients that remember, in all ways, and compares what they read after each with what
// the server answers.
func TestRememberedReads(t *testing.T) {
	t.Parallel()
	s := kubernetes(t)
	namespace, ctx, rng := s.namespace(t), t.Context(), rand.New(rand.NewPCG(1, 2))
	clients := []client.WithWatch{s.writes.remembering(s.client), s.writes.remembering(s.client)}
	object := func() *corev1.ConfigMap {
		n := rng.IntN(4)
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("n%d", n), Labels: map[string]string{"odd": fmt.Sprint(n % 2)},
		}, Data: map[string]string{"value": fmt.Sprint(rng.Uint64())}}
	}
	ways := map[string]func(client.WithWatch, *corev1.ConfigMap) error{
		"create": func(c client.WithWatch, o *corev1.ConfigMap) error { return c.Create(ctx, o) },
		"update": func(c client.WithWatch, o *corev1.ConfigMap) error { return c.Update(ctx, o) },
		"delete": func(c client.WithWatch, o *corev1.ConfigMap) error { return c.Delete(ctx, o) },
		"delete all": func(c client.WithWatch, o *corev1.ConfigMap) error {
			return c.DeleteAllOf(ctx, o, client.InNamespace(namespace), client.MatchingLabels(o.Labels))
		},
		"patch": func(c client.WithWatch, o *corev1.ConfigMap) error {
			return c.Patch(ctx, o, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"patched":"%d"}}`, rng.Uint64())))
		},
		"apply": func(c client.WithWatch, o *corev1.ConfigMap) error {
			o.APIVersion, o.Kind = "v1", "ConfigMap"
			u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return err
			}
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: u}), client.FieldOwner("it"), client.ForceOwnership)
		},
	}
	ways["apply what tells of no kind"] = func(c client.WithWatch, o *corev1.ConfigMap) error {
		return c.Apply(ctx, corev1apply.ConfigMap(o.Name, o.Namespace).WithLabels(o.Labels).WithData(o.Data), client.FieldOwner("it"), client.ForceOwnership)
	}
	names := slices.Sorted(maps.Keys(ways))
	for step := range 120 {
		way := names[rng.IntN(len(names))]
		_ = ways[way](clients[rng.IntN(2)], object()) // what is not there, or is there already, is refused
		for n, c := range clients {
			var got, want corev1.ConfigMapList
			o := object()
			for _, opts := range [][]client.ListOption{{client.InNamespace(namespace)}, {client.InNamespace(namespace), client.MatchingLabels(o.Labels)}} {
				if err := c.List(ctx, &got, opts...); err != nil {
					t.Fatal(err)
				}
				if err := s.client.List(ctx, &want, opts...); err != nil {
					t.Fatal(err)
				}
				if !equality.Semantic.DeepEqual(got.Items, want.Items) {
					t.Fatalf("step %d, after %s client %d lists %v, want %v", step, way, n, got.Items, want.Items)
				}
			}
			is, wanted := &corev1.ConfigMap{}, &corev1.ConfigMap{}
			err, wantErr := c.Get(ctx, client.ObjectKeyFromObject(o), is), s.client.Get(ctx, client.ObjectKeyFromObject(o), wanted)
			if apierrors.ReasonForError(err) != apierrors.ReasonForError(wantErr) || !equality.Semantic.DeepEqual(is, wanted) {
				t.Fatalf("step %d, after %s client %d reads %v (%v), want %v (%v)", step, way, n, is, err, wanted, wantErr)
			}
			is.Data = nil // what is done to an answer changes no other
		}
	}
}
