package internal_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file is the import clause of one file.
type file struct {
	pkg     string // the folder, as rows name it
	test    bool
	imports []string
}

const module = "chatclub/"

// short is a path as rows name it.
func short(p string) string { return strings.TrimPrefix(p, "internal/") }

// imports reads every file of the module whose folder is root.
func imports(root string) (files []file, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(root, name)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		f := file{pkg: short(filepath.ToSlash(folder)), test: strings.HasSuffix(name, "_test.go")}
		for _, i := range parsed.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, p)
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// skip leaves out folders that the go command leaves out: hidden ones, testdata, and
// modules within the module.
func skip(root, folder string) error {
	if folder == root {
		return nil
	}
	base := filepath.Base(folder)
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || err == nil {
		return fs.SkipDir
	}
	return nil
}

// violations has a sentence for everything that breaks the tables.
func violations(files []file, house, tests []row, libs []library) []string {
	found := make(map[string]bool)
	used := make(map[string]map[string]bool) // by row: which of its paths
	for _, r := range house {
		used[r.pkg] = make(map[string]bool)
	}
	for _, f := range files {
		r, known := find(house, f.pkg)
		if !known && !f.test {
			found[fmt.Sprintf("%s has no row in the table of internal/arch_test.go: add one that says what it may import", f.pkg)] = true
			continue
		}
		for _, p := range f.imports {
			ours, isOurs := strings.CutPrefix(p, module)
			switch ours = short(ours); {
			case isOurs && f.test:
				if wider, _ := find(tests, f.pkg); ours != f.pkg && !allows(r.may, ours) && !allows(wider.may, ours) {
					found[fmt.Sprintf("tests of %s import %s, and their row allows only: %s", f.pkg, ours, wider.may)] = true
				}
			case isOurs:
				if entry := deciding(r.may, ours); entry != "" {
					used[r.pkg][entry] = true
				}
				if !allows(r.may, ours) {
					found[fmt.Sprintf("%s imports %s, and its row allows only: %s", f.pkg, ours, orNothing(r.may))] = true
				}
			default:
				if sentence := checkLibrary(libs, f, p); sentence != "" {
					found[sentence] = true
				}
			}
		}
	}
	for _, r := range house {
		if !slices.ContainsFunc(files, func(f file) bool { return matches(r.pkg, f.pkg) }) {
			found[fmt.Sprintf("%s has a row and does not exist: take the row out", r.pkg)] = true
			continue
		}
		for entry := range strings.FieldsSeq(r.may) {
			if !used[r.pkg][entry] {
				found[fmt.Sprintf("%s may import %s and does not: take it out of the row", r.pkg, entry)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// checkLibrary returns a sentence when a file may not import a library.
func checkLibrary(libs []library, f file, p string) string {
	if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
		if better, ok := instead()[p]; ok {
			return fmt.Sprintf("%s imports %s: take %s", f.pkg, p, better)
		}
		return "" // the rest of the standard library
	}
	for _, l := range libs {
		if !matches(l.path+"/...", p) {
			continue
		}
		if allows(l.users, f.pkg) || f.test && allows(l.tests, f.pkg) {
			return ""
		}
		return fmt.Sprintf("%s imports %s, which is for %s, and for the tests of %s", f.pkg, p, orNothing(l.users), orNothing(l.tests))
	}
	return fmt.Sprintf("%s imports %s, which is in no row: add one to the libraries in internal/arch_test.go, if the standard library will not do", f.pkg, p)
}

// orNothing puts a word where a list is empty.
func orNothing(list string) string {
	if list == "" {
		return "nothing"
	}
	return list
}

// find returns the row of a package: of those that match the longest.
func find(rows []row, pkg string) (best row, ok bool) {
	for _, r := range rows {
		if matches(r.pkg, pkg) && (!ok || len(r.pkg) > len(best.pkg)) {
			best, ok = r, true
		}
	}
	return best, ok
}

// allows reports whether a list of paths has p.
func allows(list, p string) bool {
	entry := deciding(list, p)
	return entry != "" && !strings.HasPrefix(entry, "!")
}

// deciding returns the last path of a list that matches p, "" without any.
func deciding(list, p string) (last string) {
	for entry := range strings.FieldsSeq(list) {
		if matches(strings.TrimPrefix(entry, "!"), p) {
			last = entry
		}
	}
	return last
}

// matches reports whether a path of the tables names p.
func matches(named, p string) bool {
	family, isFamily := strings.CutSuffix(named, "...")
	if !isFamily {
		return named == p
	}
	return strings.HasPrefix(path.Clean(p)+"/", family)
}
