package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// source is a Go module that has schemas of kinds. It is taken as a download
// alone, because building against it would bring its dependencies.
type source struct {
	module, version, sum string // sum as in go.sum
	files                []string
}

// Kubernetes and the operators whose objects we have. To take another version,
// change it here with the sum that `go mod download -json MODULE@VERSION` prints.
var (
	kubernetes = source{
		"k8s.io/kubernetes", "v1.34.4", "h1:Yy6R4QB8C9kJPp25GFqEvX5XQwY5qzKeqD0Xx6oAcmk=",
		[]string{"api/openapi-spec/swagger.json"},
	}
	operators = []source{
		{
			"github.com/rabbitmq/cluster-operator/v2", "v2.16.0", "h1:oYJm+1tXIatGHtiUWyN9hGdO+0eWsXA/j1b81wh0IqI=",
			[]string{"config/crd/bases/rabbitmq.com_rabbitmqclusters.yaml"},
		},
		{
			"github.com/rabbitmq/messaging-topology-operator", "v1.17.4", "h1:WCvf2BolzOwX8czc52EM/KMluKgjHRUIWs5DtubWUB8=",
			[]string{"config/crd/bases/rabbitmq.com_policies.yaml"},
		},
		{
			"github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
			[]string{
				"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
				"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
			},
		},
		{
			"github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
			[]string{"config/crd/bases/keda.sh_scaledobjects.yaml"},
		},
		{
			"sigs.k8s.io/gateway-api", "v1.4.0", "h1:ZwlNM6zOHq0h3WUX2gfByPs2yAEsy/EenYJB78jpQfQ=",
			[]string{
				"config/crd/standard/gateway.networking.k8s.io_gateways.yaml",
				"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
			},
		},
	}
)

// kinds are the schemas of all objects that may occur, by apiVersion and kind.
type kinds map[[2]string]*jsonschema.Schema

// check validates each object, and names every fault.
func (k kinds) check(objects []object) error {
	var faults []error
	for _, o := range objects {
		schema := k[[2]string{o.text("apiVersion"), o.text("kind")}]
		if schema == nil {
			faults = append(faults, fmt.Errorf("%s: no schema for %s of %s", o, o.text("kind"), o.text("apiVersion")))
			continue
		}
		if err := schema.Validate(map[string]any(o)); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", o, err))
		}
	}
	return errors.Join(faults...)
}

// loadKinds reads the schemas of all sources, downloading what is not in the
// module cache.
func loadKinds(ctx context.Context) (kinds, error) {
	compiler := jsonschema.NewCompiler()
	locations := make(map[[2]string]string)
	err := addKubernetes(ctx, compiler, locations)
	for _, s := range operators {
		err = errors.Join(err, addOperator(ctx, s, compiler, locations))
	}
	if err != nil {
		return nil, err
	}
	known := make(kinds)
	for kind, location := range locations {
		schema, err := compiler.Compile(location)
		if err != nil {
			return nil, fmt.Errorf("compile schema of %s: %w", kind[1], err)
		}
		known[kind] = schema
	}
	return known, nil
}

// Names of the schemas among themselves; nothing is fetched from there.
const (
	kubernetesURL  = "https://schemas.invalid/kubernetes.json"
	objectMeta     = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	quantity       = "io.k8s.apimachinery.pkg.api.resource.Quantity"
	kubernetesKind = "x-kubernetes-group-version-kind"
)

// addKubernetes adds Kubernetes' own kinds.
func addKubernetes(ctx context.Context, compiler *jsonschema.Compiler, locations map[[2]string]string) error {
	files, err := kubernetes.read(ctx)
	if err != nil {
		return err
	}
	var swagger struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(files[0], &swagger); err != nil {
		return fmt.Errorf("decode %s: %w", kubernetes.files[0], err)
	}
	definitions := make(map[string]any)
	for name, definition := range swagger.Definitions {
		definitions[name] = strict(definition)
		list, _ := definition[kubernetesKind].([]any)
		for _, entry := range list {
			of, _ := entry.(map[string]any)
			group, version := fmt.Sprint(of["group"]), fmt.Sprint(of["version"])
			if group != "" {
				version = group + "/" + version
			}
			locations[[2]string{version, fmt.Sprint(of["kind"])}] = kubernetesURL + "#/definitions/" + name
		}
	}
	definitions[quantity] = map[string]any{"type": []any{"string", "number"}} // written as a string, and 2 is one, too
	return compiler.AddResource(kubernetesURL, map[string]any{"definitions": definitions})
}

// addOperator adds the kinds of an operator's custom resource definitions.
func addOperator(ctx context.Context, s source, compiler *jsonschema.Compiler, locations map[[2]string]string) error {
	files, err := s.read(ctx)
	if err != nil {
		return err
	}
	for i, raw := range files {
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct {
						Root map[string]any `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return fmt.Errorf("decode %s of %s: %w", s.files[i], s.module, err)
		}
		for _, v := range crd.Spec.Versions {
			root := strict(v.Schema.Root)
			properties, ok := root["properties"].(map[string]any)
			if !ok {
				return fmt.Errorf("%s of %s: version %s has no schema", s.files[i], s.module, v.Name)
			}
			properties["metadata"] = map[string]any{"$ref": kubernetesURL + "#/definitions/" + objectMeta}
			version := crd.Spec.Group + "/" + v.Name
			location := "https://schemas.invalid/" + version + "/" + crd.Spec.Names.Kind + ".json"
			if err := compiler.AddResource(location, root); err != nil {
				return err
			}
			locations[[2]string{version, crd.Spec.Names.Kind}] = location
		}
	}
	return nil
}

// read returns the files of the source, from the module cache or the proxy.
func (s source) read(ctx context.Context) ([][]byte, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", s.module+"@"+s.version) //nolint:gosec // one of the sources above
	command.Stderr = os.Stderr
	out, runErr := command.Output()
	var got struct{ Dir, Sum, Error string }
	if err := json.Unmarshal(out, &got); err != nil {
		return nil, fmt.Errorf("download %s: %w", s.module, errors.Join(runErr, err))
	}
	switch {
	case got.Error != "":
		return nil, fmt.Errorf("download %s: %s", s.module, got.Error)
	case got.Sum != s.sum:
		return nil, fmt.Errorf("download %s %s: its sum is %s, want %s", s.module, s.version, got.Sum, s.sum)
	}
	var files [][]byte
	for _, name := range s.files {
		raw, err := os.ReadFile(filepath.Join(got.Dir, name))
		if err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		files = append(files, raw)
	}
	return files, nil
}
