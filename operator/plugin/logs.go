package plugin

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
	"github.com/tickmesh/tickmesh/operator/build"
)

// Logs returns the last lines of a container's log, of the one that ran before if previous is set.
type Logs func(ctx context.Context, pod *corev1.Pod, container string, lines int64, previous bool) (io.ReadCloser, error)

const (
	logLines     = 100     // that logs shows of each container
	lineBytesMax = 1 << 20 // of a log; longer lines end its output
)

func (c *command) newLogs() *cobra.Command {
	var component string
	var lines int64
	cmd := &cobra.Command{
		Use: "logs [CLUSTER]", Short: "Show the last lines of the logs of a cluster's pods", Args: cobra.MaximumNArgs(1),
		Example: "  kubectl tickmesh logs demo --component node --tail 20",
		RunE: func(cmd *cobra.Command, names []string) error {
			k, cluster, err := c.find(cmd.Context(), names)
			if err != nil {
				return err
			}
			pods, err := k.pods(cmd.Context(), podsOf(cluster)...)
			if err != nil {
				return err
			}
			var failed []error
			for i := range pods {
				if component == "" || pods[i].Labels[build.LabelComponent] == component {
					failed = append(failed, k.writeLogs(cmd.Context(), c.out, &pods[i], lines))
				}
			}
			return errors.Join(failed...)
		},
	}
	cmd.Flags().StringVar(&component, "component", "", "only of this: node, etcd, router, envoy or backup")
	cmd.Flags().Int64Var(&lines, "tail", logLines, "lines of each container")
	return cmd
}

// podsOf selects the pods of a cluster.
func podsOf(c *v1alpha1.TickMeshCluster) []client.ListOption {
	return []client.ListOption{client.InNamespace(c.Namespace), client.MatchingLabels{build.LabelCluster: c.Name}}
}

// pods returns the pods that are selected, by name.
func (k *Kubernetes) pods(ctx context.Context, selected ...client.ListOption) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := k.API.List(ctx, &list, selected...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// startedContainers returns the names of a pod's containers, those that prepare it first: they tell why it does
// not start. While one of them waits, those after it have no logs.
func startedContainers(pod *corev1.Pod) (names []string) {
	waiting := map[string]bool{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting[s.Name] = s.State.Waiting != nil && s.RestartCount == 0
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !waiting[c.Name] {
			names = append(names, c.Name)
		}
	}
	return names
}

// writeLogs writes the last lines of a pod's containers, each with where it is from.
func (k *Kubernetes) writeLogs(ctx context.Context, to io.Writer, pod *corev1.Pod, lines int64) error {
	var failed []error
	for _, name := range startedContainers(pod) {
		log, err := k.Logs(ctx, pod, name, lines, false)
		if err != nil {
			failed = append(failed, fmt.Errorf("read the log of %s/%s: %w", pod.Name, name, err))
			continue
		}
		text := bufio.NewScanner(log)
		text.Buffer(nil, lineBytesMax)
		for text.Scan() {
			if _, err := fmt.Fprintf(to, "%s/%s %s\n", pod.Name, name, text.Text()); err != nil {
				return errors.Join(err, log.Close())
			}
		}
		failed = append(failed, text.Err(), log.Close())
	}
	return errors.Join(failed...)
}
