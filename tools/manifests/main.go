// Command manifests builds kustomize overlays and validates every object that
// comes out, without a cluster. A field that its kind does not have is an error,
// in custom resources too. The kinds are those of the modules in sources: what the
// API server checks beyond their schemas (the values of Kubernetes' own enums, CEL
// rules, admission) is not checked here.
//
//	go run . ../../deploy/kubernetes/overlays/*
//	go run . -download   # only fetch the schemas, to the module cache
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code: 1 if an overlay has a fault, 2 if nothing could be
// checked.
func run(ctx context.Context, overlays []string, stdout, stderr io.Writer) int {
	if len(overlays) == 0 {
		fmt.Fprintln(stderr, "usage: manifests OVERLAY... | -download")
		return 2
	}
	known, err := loadKinds(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "manifests:", err)
		return 2
	}
	if overlays[0] == "-download" {
		fmt.Fprintf(stdout, "schemas of %d kinds\n", len(known))
		return 0
	}
	code := 0
	for _, overlay := range overlays {
		objects, err := build(overlay)
		if err == nil {
			err = errors.Join(known.check(objects), checkReferences(objects))
		}
		if err != nil {
			code = 1
			for line := range strings.SplitSeq(err.Error(), "\n") {
				fmt.Fprintf(stderr, "%s: %s\n", overlay, line)
			}
			continue
		}
		fmt.Fprintf(stdout, "%s: %d objects are valid: %s\n", overlay, len(objects), count(objects))
	}
	return code
}

// object is one object of an overlay, as JSON decodes it.
type object map[string]any

// build returns the objects of an overlay, as kubectl apply -k would send them.
func build(overlay string) ([]object, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	var objects []object
	for _, r := range resources.Resources() {
		fields, err := r.Map()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", r.CurId(), err)
		}
		objects = append(objects, fields)
	}
	if len(objects) == 0 {
		return nil, errors.New("it has no object")
	}
	return objects, nil
}

// String names the object.
func (o object) String() string {
	return fmt.Sprintf("%s %s", o.text("kind"), o.text("metadata", "name"))
}

// at returns the field at path, or nil.
func (o object) at(path ...string) any {
	var here any = map[string]any(o)
	for _, name := range path {
		fields, _ := here.(map[string]any)
		here = fields[name]
	}
	return here
}

// text returns the field at path if it is a string.
func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

// count tells how many objects there are of each kind.
func count(objects []object) string {
	kinds := make(map[string]int)
	for _, o := range objects {
		kinds[o.text("kind")]++
	}
	var parts []string
	for kind, n := range kinds {
		parts = append(parts, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
