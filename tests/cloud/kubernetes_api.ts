/**
 * API servers of Kubernetes for tests, and a node that runs the Jobs it finds there.
 *
 * `SVC_TEST_KUBE_APISERVER` and `SVC_TEST_ETCD` name the programs of a real API server (`build_apiserver.sh` builds
 * the first); without them there is only ours, which keeps Jobs in memory and answers as the real one does: the same
 * tests hold both to that.
 */

import { generateKeyPairSync } from "node:crypto";
import { until } from "../support/until.ts";
import { freePort } from "../support/free_port.ts";

/** An address, and the credentials for it. */
export interface ApiServer {
  readonly url: string;
  readonly kubeconfig: string;
  /** One call; throws unless it succeeds. */
  call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  close(): Promise<void>;
}

const TOKEN = "test-token";
const SECRETS = /^\/api\/v1\/namespaces\/default\/secrets(?:\/([^/]+))?$/;
export const PODS = "/api/v1/namespaces/default/pods";
const JOBS = /^\/apis\/batch\/v1\/namespaces\/default\/jobs(?:\/([^/]+))?(\/status)?$/;
const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;

function kubeconfigOf(url: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [{ name: "test", cluster: { server: url, "insecure-skip-tls-verify": true } }],
    users: [{ name: "test", user: { token: TOKEN } }],
    contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
  });
}

async function callOf(
  url: string,
  client: Deno.HttpClient | undefined,
  method: string,
  path: string,
  body?: unknown,
) {
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": type };
  const answer = await fetch(url + path, {
    method,
    headers,
    body: body ? JSON.stringify(body) : undefined,
    client,
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

/** The part of the API that we use, in memory. */
export async function fakeApi(folder: string): Promise<ApiServer> {
  type Stored = { metadata: { name: string; uid: string }; spec: unknown; status: Record<string, unknown> };
  const jobs = new Map<string, Stored>();
  const secrets = new Map<string, Secret>();
  const pods: { metadata: { labels: Record<string, string> } }[] = [];
  const failure = (code: number, reason: string, message: string) =>
    Response.json({ kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message }, {
      status: code,
    });
  const answer = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url);
    if (request.headers.get("authorization") !== `Bearer ${TOKEN}`) {
      return failure(401, "Unauthorized", "Unauthorized");
    }
    if (pathname === PODS && request.method === "POST") {
      pods.push(await request.json());
      return Response.json(pods.at(-1), { status: 201 });
    }
    if (pathname === PODS) {
      const job = searchParams.get("labelSelector")?.replace("job-name=", "");
      const items = pods.filter(({ metadata }) => metadata.labels["job-name"] === job);
      return Response.json({ kind: "PodList", apiVersion: "v1", metadata: {}, items });
    }
    const secret = SECRETS.exec(pathname);
    if (secret && request.method === "POST") {
      const { metadata, stringData } = await request.json();
      if (secrets.has(metadata.name)) {
        return failure(409, "AlreadyExists", `secrets "${metadata.name}" already exists`);
      }
      const data = Object.entries<string>(stringData).map(([name, value]) => [name, btoa(value)]);
      secrets.set(metadata.name, { metadata, data: Object.fromEntries(data) });
      return Response.json({ metadata }, { status: 201 });
    }
    if (secret) {
      const found = secrets.get(secret[1]);
      return found ? Response.json(found) : failure(404, "NotFound", `secrets "${secret[1]}" not found`);
    }
    const [matched, name] = JOBS.exec(pathname) ?? [];
    if (!matched) return failure(404, "NotFound", "the server could not find the requested resource");
    const job = jobs.get(name ?? "");
    if (request.method === "GET" && !name) {
      return Response.json({
        kind: "JobList",
        apiVersion: "batch/v1",
        metadata: {},
        items: [...jobs.values()],
      });
    }
    if (request.method === "POST") {
      const made = await request.json();
      if (!NAME.test(made.metadata.name) || made.metadata.name.length > 63) {
        return failure(422, "Invalid", `Job.batch "${made.metadata.name}" is invalid: metadata.name`);
      }
      if (jobs.has(made.metadata.name)) {
        return failure(409, "AlreadyExists", `jobs.batch "${made.metadata.name}" already exists`);
      }
      made.metadata.uid = crypto.randomUUID();
      jobs.set(made.metadata.name, { ...made, status: {} });
      return Response.json(made, { status: 201 });
    }
    if (!job) return failure(404, "NotFound", `jobs.batch "${name}" not found`);
    if (request.method === "PATCH") Object.assign(job.status, (await request.json()).status);
    if (request.method === "DELETE") {
      // Its secret stays until the cluster gets round to it, which may take a while.
      jobs.delete(name);
    }
    return Response.json(job);
  };
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, answer);
  const url = `http://127.0.0.1:${server.addr.port}`;
  const kubeconfig = `${folder}/kubeconfig`;
  await Deno.writeTextFile(kubeconfig, kubeconfigOf(url));
  return {
    url,
    kubeconfig,
    call: (method, path, body) => callOf(url, undefined, method, path, body),
    close: () => server.shutdown(),
  };
}

/** The real one, if its programs are given. */
export const REAL = {
  apiServer: Deno.env.get("SVC_TEST_KUBE_APISERVER"),
  etcd: Deno.env.get("SVC_TEST_ETCD"),
};

export async function realApi(folder: string): Promise<ApiServer> {
  const [etcdPort, peerPort, port] = [freePort(), freePort(), freePort()];
  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  const quiet = { stdin: "null", stdout: "null", stderr: "null" } as const;
  const etcd = new Deno.Command(REAL.etcd!, {
    ...quiet,
    args: [
      ...["--data-dir", `${folder}/etcd`, "--unsafe-no-fsync"],
      ...["--listen-client-urls", etcdUrl, "--advertise-client-urls", etcdUrl],
      ...["--listen-peer-urls", `http://127.0.0.1:${peerPort}`],
    ],
  }).spawn();
  await Deno.writeTextFile(`${folder}/tokens.csv`, `${TOKEN},tester,1,system:masters\n`);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const keyPem = privateKey.export({ format: "pem", type: "pkcs8" }) as string;
  await Deno.writeTextFile(`${folder}/accounts.pem`, keyPem);
  const server = new Deno.Command(REAL.apiServer!, {
    ...quiet,
    args: [
      ...[`--etcd-servers=${etcdUrl}`, `--cert-dir=${folder}/certs`, `--secure-port=${port}`],
      ...["--bind-address=127.0.0.1", `--token-auth-file=${folder}/tokens.csv`, "--authorization-mode=RBAC"],
      ...["--service-account-issuer=https://test", `--service-account-key-file=${folder}/accounts.pem`],
      ...[
        `--service-account-signing-key-file=${folder}/accounts.pem`,
        "--service-cluster-ip-range=10.0.0.0/24",
      ],
    ],
  }).spawn();
  const url = `https://127.0.0.1:${port}`;
  const kubeconfig = `${folder}/kubeconfig`;
  await Deno.writeTextFile(kubeconfig, kubeconfigOf(url));
  let client: Deno.HttpClient | undefined;
  const close = async () => {
    client?.close();
    for (const child of [server, etcd]) {
      child.kill("SIGKILL");
      await child.status;
    }
  };
  try {
    const answers = async () => {
      client ??= Deno.createHttpClient({
        caCerts: [await Deno.readTextFile(`${folder}/certs/apiserver.crt`)],
      });
      await callOf(url, client, "GET", "/api/v1/namespaces/default");
      return true;
    };
    await until(() => answers().catch(() => false));
  } catch (error) {
    await close();
    throw error;
  }
  return { url, kubeconfig, call: (method, path, body) => callOf(url, client, method, path, body), close };
}

const PATH = "/apis/batch/v1/namespaces/default/jobs";

interface Found {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containers: { command: string[]; env: { name: string; value: string }[] }[];
        readonly volumes: { readonly secret?: { readonly secretName: string } }[];
      };
    };
  };
  readonly status: { readonly conditions?: unknown };
}

interface Secret {
  readonly metadata: { readonly name: string; readonly ownerReferences: { uid: string }[] };
  readonly data: { readonly [name: string]: string };
}

/** The secret that a job mounts. */
export async function secretsOf(api: ApiServer, { spec }: Found): Promise<Secret> {
  const [{ secret }] = spec.template.spec.volumes.filter((one) => one.secret !== undefined);
  const { metadata, data } = await api.call(
    "GET",
    `/api/v1/namespaces/default/secrets/${secret!.secretName}`,
  );
  return { metadata: metadata as Secret["metadata"], data: data as Secret["data"] };
}

export async function jobsOf(api: ApiServer): Promise<Found[]> {
  return (await api.call("GET", PATH)).items as Found[];
}

/** Plays a node of the cluster and the controller of Jobs: runs the only Job here. */
export async function runJob(api: ApiServer): Promise<void> {
  const found = await until(async () => (await jobsOf(api)).at(0));
  const { metadata: { name }, spec } = found;
  const [{ command: [program, ...args], env }] = spec.template.spec.containers;
  const startTime = new Date().toISOString().replace(/\.\d+/, "");
  await api.call("PATCH", `${PATH}/${name}/status`, { status: { active: 1, startTime } });
  const folder = await Deno.makeTempDir({ prefix: "svc-secrets-" });
  // A pod waits until its volumes exist.
  const { data } = await until(() => secretsOf(api, found).catch(() => undefined));
  for (const [file, value] of Object.entries(data)) {
    await Deno.writeTextFile(`${folder}/${file}`, atob(value));
  }
  const { success, stderr } = await new Deno.Command(program, {
    args,
    env: {
      ...Object.fromEntries(env.map(({ name, value }) => [name, value])),
      SVC_TRAINING_SECRETS: folder,
      PIP_NO_INDEX: "1",
    },
  }).output();
  await Deno.remove(folder, { recursive: true });
  if (!success) console.log(new TextDecoder().decode(stderr));
  const completionTime = new Date(Date.now() + 1000).toISOString().replace(/\.\d+/, "");
  const condition = (type: string) => ({ type, status: "True", reason: "Test", message: "as the test says" });
  const status = success
    ? {
      active: 0,
      succeeded: 1,
      completionTime,
      conditions: [condition("SuccessCriteriaMet"), condition("Complete")],
    }
    : { active: 0, failed: 1, conditions: [condition("FailureTarget"), condition("Failed")] };
  await api.call("PATCH", `${PATH}/${name}/status`, { status: { startTime, ...status } });
}
