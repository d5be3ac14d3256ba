/**
 * The files of a new module in Python, for the published library.
 */

import { pythonClass } from "./stubs.ts";
import type { ModulePlan } from "./plan.ts";

/** Longer first lines of methods are divided at their parameters. */
const LINE_MAX = 100;

export function pythonFiles(plan: ModulePlan): Record<string, string> {
  const { namespace, name, model, api } = plan;
  const full = `${namespace}:${name}:${model}`;
  const word = model.split(/[-_]/).map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join("");
  const cls = `${word}Model`;
  return {
    "main.py": `"""svc-server starts this program; the model is in model.py, whose import registers it."""

import asyncio

from viam.module.module import Module

import model  # noqa: F401

if __name__ == "__main__":
    asyncio.run(Module.run_from_registry())
`,
    "model.py": modelText(api, full, cls),
    "test_model.py": testText(cls),
    "requirements.txt": api === "rdk:service:mlmodel" ? "viam-sdk[mlmodel]\n" : "viam-sdk\n",
    "setup.sh": SETUP,
    "run.sh": RUN,
  };
}

function modelText(api: string, full: string, cls: string): string {
  const { module, name, imports, lines } = pythonClass(api);
  const isExample = api === "rdk:component:sensor";
  const stubs = lines.map((line) => stubOf(line, isExample ? 'return {"reading": self.reading}' : undefined));
  const own = isExample ? EXAMPLE_OWN : STUB_OWN;
  const typing = [...new Set(["ClassVar", "Sequence", ...wordsOf(imports, "typing")])].sort();
  const others = imports.filter((line) => !line.startsWith("from typing import "));
  const conversion = isExample ? "\nfrom viam.utils import struct_to_dict" : "";
  return `"""The model of this module${isExample ? "" : ": every method of its type, to be written"}."""

from __future__ import annotations

from typing import ${typing.join(", ")}

${
    [...others, `from ${module} import ${name}`, "from viam.resource.easy_resource import EasyResource"]
      .sort().join("\n")
  }${conversion}


class ${cls}(${name}, EasyResource):
    MODEL: ClassVar[str] = "${full}"

    @classmethod
    def validate_config(cls, config) -> tuple[Sequence[str], Sequence[str]]:
        """Returns the names of the resources that it needs, and of those it can do without; raises for wrong settings."""
        return [], []

${own}${stubs.map((stub) => `\n${stub}`).join("")}`;
}

const EXAMPLE_OWN = `    @classmethod
    def new(cls, config, dependencies):
        self = super().new(config, dependencies)
        self.reading = struct_to_dict(config.attributes).get("reading", 20)
        return self
`;

const STUB_OWN = `    @classmethod
    def new(cls, config, dependencies):
        """config.attributes has the settings; dependencies has the resources that validate_config names."""
        return super().new(config, dependencies)
`;

function wordsOf(imports: readonly string[], module: string): string[] {
  const [line] = imports.filter((one) => one.startsWith(`from ${module} import `));
  return line ? line.slice(`from ${module} import `.length).split(", ") : [];
}

function stubOf(line: string, body: string | undefined): string {
  const [, begin, method, parameters = "", result] = /^((?:async )?def) (\w+)\((.*)\) -> (.*):$/.exec(line)!;
  const text = body ?? `raise NotImplementedError("${method} is not written yet")`;
  const whole = `    ${line}`;
  if (whole.length <= LINE_MAX) return `${whole}\n        ${text}\n`;
  const parts = divided(parameters).map((one) => `        ${one},\n`).join("");
  return `    ${begin} ${method}(\n${parts}    ) -> ${result}:\n        ${text}\n`;
}

/** Parameters, divided at the commas between them. Nothing may follow `**kwargs` but the end, and a comma is fine. */
function divided(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let begin = 0;
  for (let at = 0; at <= text.length; at++) {
    const letter = text[at] ?? ",";
    if ("([{".includes(letter)) depth++;
    if (")]}".includes(letter)) depth--;
    if (letter !== "," || depth > 0) continue;
    parts.push(text.slice(begin, at).trim());
    begin = at + 1;
  }
  return parts;
}

function testText(cls: string): string {
  return `"""Run it with: python3 -m unittest"""

import json
import pathlib
import unittest

from model import ${cls}


class TestModel(unittest.TestCase):
    def test_is_the_model_that_meta_json_names(self):
        meta = json.loads((pathlib.Path(__file__).parent / "meta.json").read_text())
        self.assertEqual(str(${cls}.MODEL), meta["models"][0]["model"])

    def test_has_every_method_of_its_type(self):
        self.assertEqual(${cls}.__abstractmethods__, frozenset())
`;
}

const SETUP = `#!/bin/sh
# Installs the requirements beside the program, once. svc-server runs this before the first start of a version.
set -e
cd "$(dirname "$0")"
[ -e venv/ready ] && exit 0
rm -rf venv
python3 -m venv venv
venv/bin/python3 -m pip install --quiet --requirement requirements.txt
touch venv/ready
`;

const RUN = `#!/bin/sh
# svc-server runs this file. A python3 that has the library is used as it is.
here=$(cd "$(dirname "$0")" && pwd)
if python3 -c 'import viam' 2>/dev/null; then
  exec python3 "$here/main.py" "$@"
fi
"$here/setup.sh" || exit 1
exec "$here/venv/bin/python3" "$here/main.py" "$@"
`;
