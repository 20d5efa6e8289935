package service

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// ErrPrinted is the error of Load when the help or the version was asked for; it
// has been printed.
var ErrPrinted = errors.New("help or version printed")

// Fault is one wrong setting.
type Fault struct {
	Name string // of the variable or flag
	Err  error
}

// Faultf makes the error that a Validate method returns for a setting.
func Faultf(name, format string, args ...any) error {
	return &Fault{Name: name, Err: fmt.Errorf(format, args...)}
}

// Named gives err the name of a setting; nil stays nil.
func Named(name string, err error) error {
	if err == nil {
		return nil
	}
	return &Fault{Name: name, Err: err}
}

// Error implements error.
func (f *Fault) Error() string { return f.Name + ": " + OneLine(f.Err) }

// Unwrap gives access to the cause.
func (f *Fault) Unwrap() error { return f.Err }

// SettingsError holds every fault found in a program's settings, or in how it was
// called. Its text is one line and holds no value of a secret.
type SettingsError struct {
	Of     string // before the faults; empty: "settings"
	Faults []error
}

// Error implements error.
func (e *SettingsError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = OneLine(f)
	}
	return cmp.Or(e.Of, "settings") + ": " + strings.Join(texts, "; ")
}

// Unwrap gives access to the faults.
func (e *SettingsError) Unwrap() []error { return e.Faults }

// Load reads a program's settings (see Table for T) from environ, or from the
// process's environment when that is nil. White space around a value, and around the
// elements of a list, does not count, and an empty variable counts as unset. A value in
// quotes is a fault: the programs that read files of variables differ in them.
// `-h` prints every setting on stdout, `-version` the version, and both return
// ErrPrinted. Every setting but secrets is a flag too, which goes before the
// variable. Any other argument is a fault, told alone. Load calls the method
// `Validate() error` of every struct in T that has one. All faults come back in one
// *SettingsError, but for those of a struct whose method `IsUnused() bool` is true.
func Load[T any](args []string, environ map[string]string, stdout io.Writer) (T, error) {
	name := filepath.Base(os.Args[0])
	return LoadFlags[T](flag.NewFlagSet(name, flag.ContinueOnError), args, environ, stdout)
}

// LoadFlags is Load for a program that takes flags too: fs must hold them and
// use flag.ContinueOnError. They are set when it returns nil.
func LoadFlags[T any](fs *flag.FlagSet, args []string, environ map[string]string, stdout io.Writer) (T, error) {
	var cfg T
	v := reflect.ValueOf(&cfg).Elem()
	all := leaves(v.Type(), nil)
	version := fs.Bool("version", false, "print the version and end")
	var help bytes.Buffer // without the settings, which have a table
	fs.SetOutput(&help)
	fs.PrintDefaults()
	fs.SetOutput(io.Discard)
	flags := settingFlags(fs, all)
	explainDurations(fs)
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		printHelp[T](stdout, fs.Name(), help.String())
		return cfg, ErrPrinted
	case err != nil:
		return cfg, &SettingsError{fs.Name(), []error{fmt.Errorf("%w; -h lists all", err)}}
	case fs.NArg() > 0:
		return cfg, &SettingsError{fs.Name(), []error{fmt.Errorf("unexpected argument %.40q; -h lists all", fs.Arg(0))}}
	case *version:
		fmt.Fprintln(stdout, Version(fs.Name()))
		return cfg, ErrPrinted
	}
	if environ == nil {
		environ = env.ToMap(os.Environ())
	}
	environ = maps.Clone(environ)
	maps.Copy(environ, flags)
	var faults []error
	wrong := make(map[string]bool)
	errs := make([]error, len(all))
	for i, l := range all {
		errs[i] = setLeaf(v.FieldByIndex(l.index), l, environ)
	}
	for i, l := range all {
		if errs[i] != nil && !isUnused(v.FieldByIndex(l.index[:len(l.index)-1])) {
			faults = append(faults, &Fault{Name: l.Name, Err: errs[i]})
			wrong[l.Name] = true
		}
	}
	faults = append(faults, validate(v, wrong)...)
	if len(faults) > 0 {
		var zero T
		return zero, &SettingsError{Faults: faults}
	}
	return cfg, nil
}

// settingFlags adds a flag for each setting that fs has no flag of that name for:
// -max-in-flight for MAX_IN_FLIGHT. Secrets have none, because everybody on the
// machine can read a program's arguments. Parse fills the map.
func settingFlags(fs *flag.FlagSet, all []leaf) map[string]string {
	given := make(map[string]string)
	for _, l := range all {
		name := strings.ToLower(strings.ReplaceAll(l.Name, "_", "-"))
		if l.field.Type == reflect.TypeFor[Secret]() || fs.Lookup(name) != nil {
			continue
		}
		set := func(value string) error {
			given[l.Name] = value
			return nil
		}
		if l.field.Type.Kind() == reflect.Bool {
			fs.BoolFunc(name, l.Meaning, set)
		} else {
			fs.Func(name, l.Meaning, set)
		}
	}
	return given
}

// durationFlag is a flag of a duration whose error says what one looks like: that of
// package flag is "parse error".
type durationFlag struct{ flag.Value }

// Set implements flag.Value.
func (d durationFlag) Set(text string) error {
	if d.Value.Set(text) != nil {
		return errors.New("it is not a duration such as 30m or 24h")
	}
	return nil
}

// explainDurations has the flags of durations say what is wrong with a value.
func explainDurations(fs *flag.FlagSet) {
	fs.VisitAll(func(f *flag.Flag) {
		if g, ok := f.Value.(flag.Getter); ok {
			if _, ok := g.Get().(time.Duration); ok {
				f.Value = durationFlag{f.Value}
			}
		}
	})
}

// Defaults returns settings with every default; a setting without one is zero. A
// caller that starts a program within its process begins with them. Defaults
// panics when a default cannot be parsed, which is a mistake in T's tags.
func Defaults[T any]() T {
	var cfg T
	v := reflect.ValueOf(&cfg).Elem()
	for _, l := range leaves(v.Type(), nil) {
		if l.Required {
			continue
		}
		if err := setLeaf(v.FieldByIndex(l.index), l, nil); err != nil {
			panic(&Fault{Name: l.Name, Err: err})
		}
	}
	return cfg
}

// setLeaf gives field its value. Package env parses each variable in a struct
// of its own, because its errors name Go's fields and not the variables.
func setLeaf(field reflect.Value, l leaf, environ map[string]string) error {
	raw := trim(environ[l.Name], l.field.Type)
	switch quote := strings.Trim(raw, "\"'"); {
	case raw == "" && l.Required:
		return errors.New("must be set")
	case len(raw) > 1 && len(quote) == len(raw)-2 && raw[0] == raw[len(raw)-1]:
		return errors.New("is in quotes: leave them out, they count as a part of it")
	}
	single := reflect.New(reflect.StructOf([]reflect.StructField{{
		Name: "Value",
		Type: l.field.Type,
		Tag:  l.field.Tag,
	}}))
	only := map[string]string{}
	if raw != "" {
		only[l.Name] = raw
	}
	if err := env.ParseWithOptions(single.Interface(), env.Options{Environment: only}); err != nil {
		// raw is no secret: a Secret is text, which always parses.
		if l.Forms != "" || l.field.Type.Kind() == reflect.Bool { // a choice takes no article
			return fmt.Errorf("%.80q is not %s", raw, l.Type)
		}
		return fmt.Errorf("%.80q is not a %s", raw, l.Type)
	}
	field.Set(single.Elem().Field(0))
	return nil
}

// trim takes the white space off a value, as it stands at the end of a secret's file.
func trim(raw string, t reflect.Type) string {
	if t.Kind() != reflect.Slice {
		return strings.TrimSpace(raw)
	}
	parts := strings.Split(raw, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, ",")
}

// unused is a settings struct that may have no effect.
type unused interface{ IsUnused() bool }

func isUnused(v reflect.Value) bool {
	u, ok := reflect.TypeAssert[unused](v)
	return ok && u.IsUnused()
}

// validator is a settings struct that checks itself.
type validator interface{ Validate() error }

// validate checks v and every struct nested in it. It leaves out the settings in
// wrong, which have been reported already. It leaves out repetitions too, because
// an embedded struct's method is also its outer struct's.
func validate(v reflect.Value, wrong map[string]bool) []error {
	var faults []error
	seen := make(map[string]bool)
	var visit func(reflect.Value)
	visit = func(v reflect.Value) {
		if isUnused(v) {
			return
		}
		if checker, ok := reflect.TypeAssert[validator](v.Addr()); ok {
			for _, err := range flatten(checker.Validate()) {
				fault, named := errors.AsType[*Fault](err)
				if seen[err.Error()] || named && wrong[fault.Name] {
					continue
				}
				seen[err.Error()] = true
				faults = append(faults, err)
			}
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if _, tagged := f.Tag.Lookup("env"); !tagged && f.IsExported() && f.Type.Kind() == reflect.Struct {
				visit(v.Field(i))
			}
		}
	}
	visit(v)
	return faults
}

// flatten returns the parts of a joined error.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	// Only err itself, not what it wraps: a Fault keeps its name.
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var parts []error
	for _, e := range joined.Unwrap() {
		parts = append(parts, flatten(e)...)
	}
	return parts
}

// about is a settings struct that describes its program.
type about interface{ About() string }

func printHelp[T any](w io.Writer, name, flags string) {
	var cfg T
	if a, ok := any(&cfg).(about); ok {
		indented(w, "", a.About())
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "Usage: %s [flags]\n\nFlags:\n%s\n", name, flags)
	fmt.Fprintln(w, "Settings (environment variables; an empty one counts as unset). All but secrets\nare flags too: -log-level debug goes before LOG_LEVEL:")
	writeTable(w, Table[T]())
}
