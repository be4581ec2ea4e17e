package plugin

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

const (
	reportLogLines = 5000
	reportLogBytes = 8 << 20 // of one container: the newest
)

func (c *command) newReport() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "report [CLUSTER]", Short: "Write what a bug report needs to know of a cluster to a file", Args: cobra.MaximumNArgs(1),
		Long: `Writes a .tar.gz with what Kubernetes has of a cluster (resources, pods, volume claims, machines, events), what its
routers tell, and the last lines of its pods' logs and of the operator's. Secrets are not in it. Look at what is in
it before you show it to others: names of databases, machines and addresses are.`,
		Example: "  kubectl tickmesh report demo --file demo.tar.gz",
		RunE: func(cmd *cobra.Command, names []string) error {
			k, cluster, err := c.find(cmd.Context(), names)
			if err != nil {
				return err
			}
			if file == "" {
				file = fmt.Sprintf("tickmesh-%s-%s.tar.gz", cluster.Name, time.Now().UTC().Format("20060102T150405Z"))
			}
			out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			if err := errors.Join(k.writeReport(cmd.Context(), out, cluster), out.Close()); err != nil {
				return errors.Join(err, os.Remove(file)) // half a report is no report, and in the way of the next
			}
			_, err = fmt.Fprintf(c.out, "%s is written: look at what is in it before you show it to others\n", file)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "`file` to write, which must not be there (default: by the cluster's name and the time)")
	return cmd
}

// bundle is a report that is written. What cannot be read is told in it, and does not end it.
type bundle struct {
	archive *tar.Writer
	missing []string
}

// writeReport writes the report of a cluster.
func (k *Kubernetes) writeReport(ctx context.Context, to io.Writer, c *v1alpha1.TickMeshCluster) error {
	compressed := gzip.NewWriter(to)
	b := &bundle{archive: tar.NewWriter(compressed)}
	err := errors.Join(k.addObjects(ctx, b, c), k.addStatus(ctx, b, c), k.addLogs(ctx, b, c),
		b.add("missing.txt", []byte(strings.Join(b.missing, "\n"))))
	return errors.Join(err, b.archive.Close(), compressed.Close())
}

func (b *bundle) add(name string, text []byte) error {
	header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: time.Now()}
	if err := b.archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := b.archive.Write(text)
	return err
}

func (b *bundle) lacks(what string, err error) {
	b.missing = append(b.missing, fmt.Sprintf("%s: %v", what, err))
}

// addObjects adds what Kubernetes has, by kind. Secrets are none of it.
func (k *Kubernetes) addObjects(ctx context.Context, b *bundle, c *v1alpha1.TickMeshCluster) error {
	here, ours := client.InNamespace(c.Namespace), client.MatchingLabels{build.LabelCluster: c.Name}
	for _, kind := range []struct {
		name    string
		list    client.ObjectList
		options []client.ListOption
	}{
		{"clusters", &v1alpha1.TickMeshClusterList{}, []client.ListOption{here}},
		{"backups", &v1alpha1.TickMeshBackupList{}, []client.ListOption{here}},
		{"schedules", &v1alpha1.TickMeshBackupScheduleList{}, []client.ListOption{here}},
		{"restores", &v1alpha1.TickMeshRestoreList{}, []client.ListOption{here}},
		{"pods", &corev1.PodList{}, []client.ListOption{here, ours}},
		{"statefulsets", &appsv1.StatefulSetList{}, []client.ListOption{here, ours}},
		{"deployments", &appsv1.DeploymentList{}, []client.ListOption{here, ours}},
		{"services", &corev1.ServiceList{}, []client.ListOption{here, ours}},
		{"configmaps", &corev1.ConfigMapList{}, []client.ListOption{here, ours}},
		{"volumeclaims", &corev1.PersistentVolumeClaimList{}, []client.ListOption{here, ours}},
		{"disruptionbudgets", &policyv1.PodDisruptionBudgetList{}, []client.ListOption{here, ours}},
		{"networkpolicies", &networkingv1.NetworkPolicyList{}, []client.ListOption{here, ours}},
		{"events", &corev1.EventList{}, []client.ListOption{here}},
		{"machines", &corev1.NodeList{}, nil},
	} {
		if err := k.API.List(ctx, kind.list, kind.options...); err != nil {
			b.lacks(kind.name, err)
			continue
		}
		text, err := yaml.Marshal(kind.list)
		if err == nil {
			err = b.add(kind.name+".yaml", text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addStatus adds what the routers tell.
func (k *Kubernetes) addStatus(ctx context.Context, b *bundle, c *v1alpha1.TickMeshCluster) error {
	mesh, err := k.Dial(ctx, c)
	if err != nil {
		b.lacks("status", err)
		return nil
	}
	status, err := mesh.Status(ctx, false)
	if err := errors.Join(err, mesh.Close()); err != nil {
		b.lacks("status", err)
		return nil
	}
	text, err := yaml.Marshal(status)
	if err != nil {
		return err
	}
	return b.add("status.yaml", text)
}

// addLogs adds the last lines of all containers, and of those that ran before them: the cluster's, and the
// operator's wherever it runs.
func (k *Kubernetes) addLogs(ctx context.Context, b *bundle, c *v1alpha1.TickMeshCluster) error {
	for folder, selected := range map[string][]client.ListOption{
		"logs":          podsOf(c),
		"logs/operator": {client.MatchingLabels(build.OperatorSelector())},
	} {
		pods, err := k.pods(ctx, selected...)
		if err != nil {
			b.lacks(folder, err)
		}
		for i := range pods {
			for _, name := range startedContainers(&pods[i]) {
				file := fmt.Sprintf("%s/%s/%s", folder, pods[i].Name, name)
				if err := k.addLog(ctx, b, file+".log", &pods[i], name, false); err != nil {
					return err
				}
				if !restarted(&pods[i], name) {
					continue
				}
				if err := k.addLog(ctx, b, file+".previous.log", &pods[i], name, true); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// addLog adds the last lines of a container.
func (k *Kubernetes) addLog(ctx context.Context, b *bundle, file string, pod *corev1.Pod, container string, previous bool) error {
	text, err := k.log(ctx, pod, container, previous)
	if err != nil {
		b.lacks(file, err)
		return nil
	}
	return b.add(file, text)
}

func (k *Kubernetes) log(ctx context.Context, pod *corev1.Pod, container string, previous bool) ([]byte, error) {
	log, err := k.Logs(ctx, pod, container, reportLogLines, previous)
	if err != nil {
		return nil, err
	}
	newest := &tail{max: reportLogBytes}
	_, err = io.Copy(newest, log)
	return newest.bytes(), errors.Join(err, log.Close())
}

// tail is a writer that keeps the last bytes of what is written, max of them.
type tail struct {
	max  int
	kept []byte // at most 2 * max, and one write
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*t.max {
		t.kept = t.kept[:copy(t.kept, t.bytes())]
	}
	return len(p), nil
}

func (t *tail) bytes() []byte { return t.kept[max(0, len(t.kept)-t.max):] }

// restarted reports whether a container ran before.
func restarted(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.RestartCount > 0
	})
}
