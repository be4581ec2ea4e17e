{{/* Name of the operator's objects. */}}
{{- define "tickmesh.operator" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}-operator
{{- end -}}

{{/* Name of the operator's objects that have no namespace. */}}
{{- define "tickmesh.operatorClusterWide" -}}
{{ .Release.Namespace }}-{{ include "tickmesh.operator" . }}
{{- end -}}

{{/* Whether the release has an operator. Values of an older chart, which --reuse-values keeps, lack what
     came later. */}}
{{- define "tickmesh.operatorEnabled" -}}
{{ if dig "enabled" true .Values.operator }}yes{{ end }}
{{- end -}}

{{/* Whether it makes roles. */}}
{{- define "tickmesh.rbac" -}}
{{ if and (include "tickmesh.operatorEnabled" .) (dig "create" true (.Values.rbac | default dict)) }}yes{{ end }}
{{- end -}}

{{/* Name of the ServiceAccount that the operator runs as. */}}
{{- define "tickmesh.serviceAccount" -}}
{{ dig "serviceAccount" "name" "" .Values.operator | default (include "tickmesh.operator" .) }}
{{- end -}}

{{/* Labels that select the operator's pods. Network policies of clusters know the first. */}}
{{- define "tickmesh.operatorSelector" -}}
app.kubernetes.io/name: tickmesh-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of everything that belongs to the operator. */}}
{{- define "tickmesh.operatorLabels" -}}
{{ include "tickmesh.operatorSelector" . }}
{{ include "tickmesh.commonLabels" . }}
{{- end -}}

{{- define "tickmesh.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Reference of an image: a list of the root and the values of the image. */}}
{{- define "tickmesh.reference" -}}
{{- $root := index . 0 }}
{{- with index . 1 }}
{{- if and .digest (not .tag) }}
{{- fail (printf "the image %s has a digest and no tag: set the tag of the same image beside it, as an upgrade would put the next version's before the old digest" .repository) }}
{{- end }}
{{- with dig "imageRegistry" "" ($root.Values.global | default dict) }}{{ . | trimSuffix "/" }}/{{ end }}
{{- .repository }}:{{ .tag | default $root.Chart.AppVersion }}
{{- with .digest }}@{{ . }}{{ end }}
{{- end }}
{{- end -}}

{{- define "tickmesh.image" -}}
{{ include "tickmesh.reference" (list . .Values.image) }}
{{- end -}}

{{- define "tickmesh.operatorImage" -}}
{{ include "tickmesh.reference" (list . .Values.operator.image) }}
{{- end -}}

{{- define "tickmesh.envoyImage" -}}
{{ include "tickmesh.reference" (list . .Values.envoyImage) }}
{{- end -}}

{{/* Security of pods and containers: as that of the operator's own pods. */}}
{{- define "tickmesh.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "tickmesh.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
