{{/* Refuses values that cannot work together, and a second operator for the same namespaces. */}}
{{- define "tickmesh.guard" -}}
{{- range .Values.operator.extraArgs }}
{{- if regexMatch "^--(namespaces|operator-namespace|metrics-addr|health-addr)(=|$)" . }}
{{- fail (printf "operator.extraArgs has %s, which roles, ports and probes would not follow: leave it out; operator.namespaces names the namespaces" .) }}
{{- end }}
{{- end }}
{{- range .Values.operator.extraEnv }}
{{- if eq .name "POD_NAMESPACE" }}
{{- fail "operator.extraEnv has POD_NAMESPACE, which the chart sets: leave it out" }}
{{- end }}
{{- end }}
{{- if and (not (dig "serviceAccount" "create" true .Values.operator)) (not (dig "serviceAccount" "name" "" .Values.operator)) }}
{{- fail "operator.serviceAccount.create is false, and nothing names an account: set operator.serviceAccount.name" }}
{{- end }}
{{- /* Who may not make roles may not look into other namespaces either. An operator that is there already
       is not refused its upgrade: it leaves the clusters of others alone. */}}
{{- if and (dig "guard" true .Values.operator) (not (lookup "apps/v1" "Deployment" .Release.Namespace (include "tickmesh.operator" .))) }}
{{- $mine := .Values.operator.namespaces }}
{{- $where := ternary "" .Release.Namespace (not (empty (include "tickmesh.rbac" .))) }}
{{- range (lookup "apps/v1" "Deployment" $where "").items }}
{{- if and (eq (dig "metadata" "labels" "app.kubernetes.io/name" "" .) "tickmesh-operator") (gt (int .spec.replicas) 0) }}
{{- $theirs := list }}
{{- range (index .spec.template.spec.containers 0).args }}
{{- if hasPrefix "--namespaces=" . }}
{{- $theirs = concat $theirs (splitList "," (trimPrefix "--namespaces=" .)) }}
{{- end }}
{{- end }}
{{- $both := "all namespaces" }}
{{- if and $mine $theirs }}
{{- $both = "" }}
{{- range $mine }}
{{- if has . $theirs }}{{ $both = printf "namespace %s" . }}{{ end }}
{{- end }}
{{- else if or $mine $theirs }}
{{- $both = printf "namespace %s" (first (concat $mine $theirs)) }}
{{- end }}
{{- if $both }}
{{- fail (printf "the operator %s in namespace %s looks after %s already: leave this one out (chart tickmesh: operator.enabled=false), have operator.namespaces of both name different ones, or set operator.guard to false to install it all the same" .metadata.name .metadata.namespace $both) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
