/**
 * `script new`: a folder with a training script that runs, as a beginning for people's own.
 *
 * The example needs nothing but Python: it counts labels, and writes a model of text.
 */

import { join, resolve } from "node:path";
import { SvcError } from "../../../lib/base/error.ts";
import { UsageError } from "../../flags.ts";
import { type MlCommand, mlCommand } from "../command.ts";

const NAME = /^[a-z][a-z0-9-]{0,58}[a-z0-9]$/;

export const NEW_SCRIPT: MlCommand = mlCommand(
  "script new",
  ["NAME"],
  "Makes a folder with a training script that runs as it is: change model/training.py.",
  [{
    name: "folder",
    type: "string",
    default: "",
    value: "FOLDER",
    help: "The new folder; by default one with the script's name.",
  }],
  async (context, [name], { folder }) => {
    if (!NAME.test(name)) {
      throw new UsageError(
        `NAME: found "${name}", wanted lower-case letters, digits and dashes, such as my-script`,
      );
    }
    const { host } = context;
    const target = resolve(host.cwd(), folder || name);
    const there = await host.readFolder(target).catch(() => []);
    if (there.length > 0) {
      throw new SvcError("already_exists", `${target} is not empty: choose another --folder`);
    }
    await host.makeFolder(join(target, "model"));
    const files = scriptFiles(name);
    for (const [file, text] of Object.entries(files)) await host.writeFile(join(target, file), text);
    context.print({ folder: target, files: Object.keys(files) }, [target]);
    context.note(`try it: svc-ml dataset export DATASET -d data`);
    context.note(`        svc-ml script test-local ${folder || name} --dataset-root data`);
    context.note(`use it: svc-ml submit-custom --path ${folder || name} --dataset DATASET`);
  },
);

function scriptFiles(name: string): { readonly [file: string]: string } {
  return {
    "setup.py": `from setuptools import find_packages, setup

setup(
    name="${name}",
    version="0.1",
    packages=find_packages(),
    include_package_data=True,
    install_requires=[],  # what the script imports, such as "tensorflow>=2.16"
)
`,
    "model/__init__.py": "",
    "model/training.py": TRAINING,
    "README.md": `# ${name}

A training script. \`model/training.py\` gets a dataset and writes a model; the control plane runs it as
\`python3 -m model.training --dataset_file FILE --model_output_directory FOLDER\`, with your \`--arg KEY=VALUE\` as
\`--KEY=VALUE\`.

- Try it on this computer: \`svc-ml dataset export DATASET -d data\`, then in the folder above this one
  \`svc-ml script test-local ${name} --dataset-root data\`.
- Train with it: \`svc-ml submit-custom --path ${name} --dataset DATASET\`.
`,
  };
}

const TRAINING =
  `"""Trains a model on a dataset. This example counts how often each label occurs, and keeps the labels.

The dataset is a file with one JSON object on each line:
{"image_path": ..., "classification_annotations": [{"annotation_label": ...}], "bounding_box_annotations": [...]}
"""

import argparse
import collections
import json
import os


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset_file", required=True)
    parser.add_argument("--model_output_directory", required=True)
    parser.add_argument("--num_epochs", type=int, default=3)
    arguments, _ = parser.parse_known_args()
    return arguments


def read_dataset(path):
    """Yields the path and the labels of each image."""
    with open(path) as lines:
        for line in filter(str.strip, lines):
            image = json.loads(line)
            annotations = image.get("classification_annotations", []) + image.get("bounding_box_annotations", [])
            yield image["image_path"], [one["annotation_label"] for one in annotations]


def main():
    arguments = parse_arguments()
    images = list(read_dataset(arguments.dataset_file))
    counts = collections.Counter(label for _, labels in images for label in labels)
    for epoch in range(1, arguments.num_epochs + 1):
        # Train here. Lines of this form are shown as the job's progress.
        print(f"Epoch {epoch}/{arguments.num_epochs} - loss: {1 / epoch:.3f}", flush=True)
    os.makedirs(arguments.model_output_directory, exist_ok=True)
    with open(os.path.join(arguments.model_output_directory, "labels.txt"), "w") as file:
        file.write("".join(f"{label}\\n" for label in sorted(counts)))
    with open(os.path.join(arguments.model_output_directory, "model.json"), "w") as file:
        json.dump({"images": len(images), "labels": counts}, file)


if __name__ == "__main__":
    main()
`;
