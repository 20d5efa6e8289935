package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	demo       = "../../deploy/kubernetes/overlays/demo"
	production = "../../deploy/kubernetes/overlays/production"
)

// Each overlay is valid, and with any of these faults it is not.
func TestFaultsAreFound(t *testing.T) {
	known, err := loadKinds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		overlay, kind, name string
		path                []string // where value is put; 0 is the first of a list
		value               any      // nil: the field is taken out
		fault               string
	}{
		{demo, "Deployment", "core", []string{"spec", "template", "spec", "containers", "0", "readynessProbe"}, map[string]any{}, "readynessProbe"},
		{demo, "Deployment", "core", []string{"spec", "replicas"}, "two", "/spec/replicas"},
		{demo, "Deployment", "core", []string{"spec", "selector"}, nil, "selector"},
		{demo, "Deployment", "core", []string{"apiVersion"}, "apps/v1beta1", "no schema for Deployment of apps/v1beta1"},
		{demo, "Deployment", "core", []string{"metadata", "lables"}, map[string]any{}, "lables"},
		{demo, "Service", "webhook", []string{"spec", "selector"}, map[string]any{"app": "webhook"}, "finds no pod"},
		{demo, "Service", "webhook", []string{"spec", "ports", "0", "targetPort"}, "htp", `has no port "htp"`},
		{demo, "NetworkPolicy", "webhook", []string{"spec", "podSelector", "matchLabels", "x"}, "y", "finds no pod"},
		{demo, "PodDisruptionBudget", "core", []string{"spec", "selector", "matchLabels", "x"}, "y", "finds no pod"},
		{production, "RabbitmqCluster", "rabbitmq", []string{"spec", "replica"}, 3, "replica"},
		{production, "Policy", "chatclub-dead", []string{"spec", "applyTo"}, "quorum", "/spec/applyTo"},
		{production, "Policy", "chatclub-dead", []string{"spec", "rabbitmqClusterReference", "name"}, "rabbit", `no RabbitmqCluster "rabbit"`},
		{production, "PodMonitor", "chatclub", []string{"spec", "podMetricsEndpoints", "0", "intervall"}, "15s", "intervall"},
		{production, "PodMonitor", "chatclub", []string{"spec", "podMetricsEndpoints", "0", "port"}, "metrics", `has no port "metrics"`},
		{production, "PodMonitor", "chatclub", []string{"metadata", "lables"}, map[string]any{}, "lables"},
		{production, "PrometheusRule", "chatclub", []string{"spec", "groups", "0", "rules", "0", "fore"}, "1m", "fore"},
		{production, "ScaledObject", "core", []string{"spec", "triggers", "0", "metadata"}, nil, "metadata"},
		{production, "ScaledObject", "core", []string{"spec", "scaleTargetRef", "name"}, "cores", `no Deployment "cores"`},
	} {
		t.Run(row.kind+" "+strings.Join(row.path, "."), func(t *testing.T) {
			objects := buildT(t, row.overlay)
			if err := errors.Join(known.check(objects), checkReferences(objects)); err != nil {
				t.Fatalf("%s has faults without a change: %v", row.overlay, err)
			}
			put(t, find(t, objects, row.kind, row.name), row.path, row.value)
			err := errors.Join(known.check(objects), checkReferences(objects))
			if err == nil || !strings.Contains(err.Error(), row.fault) || !strings.Contains(err.Error(), row.kind) {
				t.Errorf("faults = %v, want one of %s that says %q", err, row.kind, row.fault)
			}
		})
	}
}

func TestRun(t *testing.T) {
	wrong := t.TempDir()
	if err := os.WriteFile(filepath.Join(wrong, "kustomization.yaml"), []byte("resources: [none.yaml]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		overlays []string
		code     int
		stdout   string
		stderr   string
	}{
		{[]string{demo, production}, 0, "objects are valid", ""},
		{nil, 2, "", "usage"},
		{[]string{"-download"}, 0, "schemas of", ""},
		{[]string{wrong}, 1, "", "none.yaml"},
		{[]string{t.TempDir()}, 1, "", "kustomization"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), row.overlays, &stdout, &stderr)
		if code != row.code || !strings.Contains(stdout.String(), row.stdout) || !strings.Contains(stderr.String(), row.stderr) {
			t.Errorf("run(%q) = %d, %q, %q, want %d, %q, %q", row.overlays, code, stdout.String(), stderr.String(), row.code, row.stdout, row.stderr)
		}
	}
}

// A schema is that of the version whose sum is written down, or none.
func TestSourceWithAnotherSum(t *testing.T) {
	s := operators[1]
	s.sum = "h1:other"
	if _, err := s.read(t.Context()); err == nil || !strings.Contains(err.Error(), "want h1:other") {
		t.Errorf("read of a source with another sum = %v, want an error that names both", err)
	}
	s.version = "v0.0.0-none"
	if _, err := s.read(t.Context()); err == nil || !strings.Contains(err.Error(), s.module) {
		t.Errorf("read of a version that there is not = %v, want an error that names the module", err)
	}
}

// buildT builds an overlay, as types that JSON has.
func buildT(t *testing.T, overlay string) (objects []object) {
	t.Helper()
	built, err := build(overlay)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(built)
	if err == nil {
		err = json.Unmarshal(raw, &objects)
	}
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func find(t *testing.T, objects []object, kind, name string) object {
	t.Helper()
	for _, o := range objects {
		if o.text("kind") == kind && o.text("metadata", "name") == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// put sets the field at path, or takes it out.
func put(t *testing.T, o object, path []string, value any) {
	t.Helper()
	var here any = map[string]any(o)
	for _, name := range path[:len(path)-1] {
		switch in := here.(type) {
		case map[string]any:
			here = in[name]
		case []any:
			here = in[0]
		}
	}
	fields, ok := here.(map[string]any)
	if !ok {
		t.Fatalf("nothing is at %q", path)
	}
	last := path[len(path)-1]
	if value == nil {
		delete(fields, last)
		return
	}
	fields[last] = value
}
