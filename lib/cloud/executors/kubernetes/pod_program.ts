/**
 * The program of a training script's container on a cluster: plain Python without packages.
 *
 * It fetches the script and its images, installs and runs the script by the published contract, and sends back the
 * script's output. The cluster keeps its own output as the pod's log.
 */

/** Its working folder; the paths in the dataset's lines start with it. */
export const POD_FOLDER = "/tmp/svc-training";
/** The file of its secrets that opens the control plane's pages. */
export const TOKEN_FILE = "token";

export const POD_PROGRAM = `
import json, os, shutil, subprocess, sys, tarfile, urllib.request

folder = ${JSON.stringify(POD_FOLDER)}
os.makedirs(folder, exist_ok=True)
def call(what, **options):
    with open(os.path.join(os.environ["SVC_TRAINING_SECRETS"], ${JSON.stringify(TOKEN_FILE)})) as file:
        token = file.read()
    request = urllib.request.Request(os.environ["SVC_TRAINING_URL"] + "/" + what, **options)
    request.add_unredirected_header("Authorization", "Bearer " + token)
    return urllib.request.urlopen(request, timeout=600)
archive = os.path.join(folder, "input.tar.gz")
with call("input") as answer, open(archive, "wb") as file:
    shutil.copyfileobj(answer, file)
with tarfile.open(archive) as tar:
    tar.extractall(folder)
os.remove(archive)
with open(os.path.join(folder, "job.json")) as file:
    job = json.load(file)
source = os.path.join(folder, "script")
while not any(os.path.exists(os.path.join(source, name)) for name in ("setup.py", "pyproject.toml")):
    inside = os.listdir(source)
    if len(inside) != 1 or not os.path.isdir(os.path.join(source, inside[0])):
        sys.exit("the script's package has " + ", ".join(inside) + ", wanted setup.py and model/training.py")
    source = os.path.join(source, inside[0])
output = os.path.join(folder, "output")
os.makedirs(output, exist_ok=True)
env = {name: value for name, value in os.environ.items() if not name.startswith("SVC_TRAINING_")}
env.update(job["env"], PYTHONUNBUFFERED="1")
place = os.path.join(folder, "environment")
subprocess.check_call([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", place])
python = os.path.join(place, "bin", "python3")
pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
if subprocess.call(pip + [source], env=env) != 0:
    print("the script cannot be installed: running it from where it was unpacked", flush=True)
    env["PYTHONPATH"] = source
paths = ["--dataset_file=" + os.path.join(folder, "dataset.jsonl"), "--model_output_directory=" + output]
command = [python, "-m", "model.training"] + paths + job["arguments"]
code = subprocess.call(command, env=env, cwd=os.path.join(folder, "data"))
if code != 0:
    sys.exit(code if code > 0 else 128 - code)
result = os.path.join(folder, "output.tar.gz")
with tarfile.open(result, "w:gz") as tar:
    kept = lambda entry: entry if entry.name != "./tmp" and (entry.isfile() or entry.isdir()) else None
    tar.add(output, arcname=".", filter=kept)
with open(result, "rb") as file:
    headers = {"content-length": str(os.path.getsize(result)), "content-type": "application/gzip"}
    call("output", data=file, method="PUT", headers=headers).close()
`;
