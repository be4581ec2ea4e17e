package build

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tickmesh/tickmesh/api/v1alpha1"
)

// additionPrefix begins the names of volumes that spec adds, so that none is one of the operator's,
// of this version or of another.
const additionPrefix = "extra-"

// withAdditions returns the pod with what spec adds to it. What the operator has set itself stays
// as it is: rules of the definition refuse what would change it.
func (p pod) withAdditions() pod {
	a := p.additions
	if a == nil {
		return p
	}
	if len(a.Annotations) > 0 {
		annotations := make(map[string]string, len(a.Annotations)+len(p.annotations))
		for key, value := range a.Annotations {
			annotations[key] = string(value)
		}
		maps.Copy(annotations, p.annotations)
		p.annotations = annotations
	}
	p.container.Env = slices.Concat(p.container.Env, variables(a.Env))
	p.container.VolumeMounts = slices.Concat(p.container.VolumeMounts, additionalMounts(a.VolumeMounts))
	p.volumes = slices.Concat(p.volumes, additionalVolumes(a.Volumes))
	return p
}

func variables(of []v1alpha1.PodVariable) []corev1.EnvVar {
	list := make([]corev1.EnvVar, 0, len(of))
	for i := range of {
		v := corev1.EnvVar{Name: of[i].Name, Value: of[i].Value}
		if k := of[i].SecretKeyRef; k != nil {
			v.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: k.Name}, Key: k.Key, Optional: optional(k.Optional),
			}}
		}
		if k := of[i].ConfigMapKeyRef; k != nil {
			v.ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: k.Name}, Key: k.Key, Optional: optional(k.Optional),
			}}
		}
		list = append(list, v)
	}
	return list
}

// optional returns nil for what has to be there, which is Kubernetes' default.
func optional(is bool) *bool {
	if !is {
		return nil
	}
	return &is
}

func additionalMounts(of []v1alpha1.PodMount) []corev1.VolumeMount {
	list := make([]corev1.VolumeMount, 0, len(of))
	for _, m := range of {
		list = append(list, corev1.VolumeMount{Name: additionPrefix + m.Name, MountPath: m.MountPath, SubPath: m.SubPath, ReadOnly: m.ReadOnly})
	}
	return list
}

func additionalVolumes(of []v1alpha1.PodVolume) []corev1.Volume {
	list := make([]corev1.Volume, 0, len(of))
	for i := range of {
		v := &of[i]
		var source corev1.VolumeSource
		switch {
		case v.Secret != nil:
			source.Secret = &corev1.SecretVolumeSource{SecretName: v.Secret.SecretName, Optional: optional(v.Secret.Optional), DefaultMode: ptr(int32(secretFileMode))}
		case v.ConfigMap != nil:
			source.ConfigMap = &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: v.ConfigMap.Name}, Optional: optional(v.ConfigMap.Optional), DefaultMode: ptr(int32(secretFileMode)),
			}
		case v.EmptyDir != nil:
			source.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: v.EmptyDir.Medium}
			if size := v.EmptyDir.SizeLimit; size != nil {
				source.EmptyDir.SizeLimit = ptr(size.DeepCopy())
			}
		case v.PersistentVolumeClaim != nil:
			source.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.PersistentVolumeClaim.ClaimName, ReadOnly: v.PersistentVolumeClaim.ReadOnly}
		case v.CSI != nil:
			source.CSI = &corev1.CSIVolumeSource{Driver: v.CSI.Driver, ReadOnly: optional(v.CSI.ReadOnly), VolumeAttributes: maps.Clone(v.CSI.VolumeAttributes)}
		}
		list = append(list, corev1.Volume{Name: additionPrefix + v.Name, VolumeSource: source})
	}
	return list
}
