/**
 * The context of a `svc-ml` command: the chosen control plane, its services, and the output.
 *
 * Data goes to standard output, as a table or as JSON in the names of protobuf; all else goes to standard error. The
 * first use connects, and not before.
 */

import { AppService } from "../../proto/gen/app_pb.ts";
import { DataService } from "../../proto/gen/data_pb.ts";
import { DatasetService } from "../../proto/gen/dataset_pb.ts";
import { DataSyncService } from "../../proto/gen/datasync_pb.ts";
import { MLInferenceService } from "../../proto/gen/ml_inference_pb.ts";
import { PackageService } from "../../proto/gen/packages_pb.ts";
import type { Host } from "../../lib/base/host.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { didYouMean } from "../../lib/base/schema/suggest.ts";
import type { Secret } from "../../lib/base/secret.ts";
import { connectApp } from "../../lib/cloud_client/app_channel.ts";
import { MlTrainingClient } from "../../lib/cloud_client/training_client.ts";
import { chosen, givenKey, ProfileFile } from "../../lib/cloud_client/profile.ts";
import { type Channel, client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { type DescMessage, type MessageShape, toJson } from "../../lib/wire/rpc/proto.ts";
import type { Flag, Values } from "../flags.ts";
import { namedOne, onlyOf } from "../lookup.ts";
import { ProgressBar, type Progressing } from "../progress/progress_bar.ts";
import { type Listing, type Names, printListing, printResult, withNames, writeHint } from "../table.ts";

/** Flags of every command. */
export const ML_FLAGS = [
  {
    name: "profile",
    type: "string",
    default: "",
    value: "PROFILE",
    env: "SVC_PROFILE",
    help: "Use the profile that login has stored under this name.",
  },
  {
    name: "base-url",
    type: "string",
    default: "",
    value: "URL",
    env: "SVC_BASE_URL",
    help: "The address of the control plane: https://host:port.",
  },
  {
    name: "org-id",
    type: "string",
    default: "",
    value: "ORGANIZATION",
    env: "SVC_ORG_ID",
    help: "The organization's id, the beginning of its id, or its name; the only one by default.",
  },
  {
    name: "ca-file",
    type: "string",
    default: "",
    value: "FILE",
    env: "SVC_CA_FILE",
    help: "Trust this authority (a file of certificates, PEM), such as the one of svc-cloud --tls.",
  },
  {
    name: "allow-insecure-creds",
    type: "bool",
    default: false,
    help: "The key may travel to other computers without TLS.",
  },
  {
    name: "output",
    short: "o",
    type: "string",
    default: "table",
    value: "FORM",
    help: "table or json.",
  },
  { name: "json", type: "bool", default: false, help: "The same as -o json." },
  { name: "quiet", short: "q", type: "bool", default: false, help: "No hints on standard error." },
] as const satisfies readonly Flag[];

export type CommonValues = Values<typeof ML_FLAGS>;

/** The outside of the program. */
export interface MlProgramContext {
  readonly host: Host;
  readonly clock: Clock;
  /** Which of the standard streams are terminals. */
  readonly terminal: { readonly input: boolean; readonly output: boolean; readonly errors: boolean };
  /** The terminal's present width. */
  columns(): number;
  /** Asks the person for a line; `undefined` without a person. The terminal does not show a `hidden` answer. */
  ask(question: string, options?: { readonly hidden?: boolean }): string | undefined;
  /** The first line of standard input if that is no terminal; `undefined` if it is empty. */
  firstLine(): Promise<string | undefined>;
}

/** The control plane's address and the caller's credentials. */
export interface Account {
  readonly baseUrl: string;
  readonly keyId: string;
  readonly key: Secret;
  readonly organization: string;
  readonly allowInsecureCredentials: boolean;
  readonly ca?: string;
}

/** The services of the chosen control plane. */
export interface Services {
  readonly account: Account;
  readonly jobs: MlTrainingClient;
  readonly app: ServiceClient<typeof AppService>;
  readonly data: ServiceClient<typeof DataService>;
  readonly dataSync: ServiceClient<typeof DataSyncService>;
  readonly datasets: ServiceClient<typeof DatasetService>;
  readonly inference: ServiceClient<typeof MLInferenceService>;
  readonly packages: ServiceClient<typeof PackageService>;
}

export class MlCommandContext {
  readonly host: Host;
  readonly clock: Clock;
  readonly json: boolean;
  readonly profiles: ProfileFile;
  #account: Account | undefined;
  #channel: Channel | undefined;
  #services: Services | undefined;

  /** Throws `invalid_argument` for an unknown output format. `signal` aborts at Ctrl-C. */
  constructor(
    readonly context: MlProgramContext,
    readonly values: CommonValues,
    readonly signal: AbortSignal,
  ) {
    const { output, json } = values;
    if (output !== "table" && output !== "json") {
      const hint = didYouMean(output, ["table", "json"]);
      throw new SvcError("invalid_argument", `--output: found "${output}", wanted table or json${hint}`);
    }
    this.host = context.host;
    this.clock = context.clock;
    this.json = json || output === "json";
    this.profiles = new ProfileFile(context.host);
  }

  /** Prints a result: the value as JSON, or the lines. */
  print(value: unknown, lines: readonly string[]): void {
    printResult(this.host, this.json, value, lines);
  }

  /** Prints a message likewise. */
  printMessage<D extends DescMessage>(desc: D, message: MessageShape<D>, lines: readonly string[]): void {
    this.print(this.json ? toJson(desc, message) : undefined, lines);
  }

  /** Prints a list: the value as JSON, or a table that fits the terminal; the hint for an empty one is a remark. */
  list(value: () => unknown, listing: Listing): void {
    if (this.json) this.print(value(), []);
    else if (listing.rows.length === 0) this.note(listing.empty);
    else printListing(this.host, false, undefined, listing);
  }

  /** Prints a message with a list likewise. */
  listMessage<D extends DescMessage>(
    desc: D,
    message: MessageShape<D>,
    listing: Listing,
    names: Names = new Map(),
  ): void {
    // An empty list is there, too: scripts go through it.
    const empty = desc.fields.filter(({ fieldKind }) => fieldKind === "list").map((
      one,
    ) => [one.jsonName, []]);
    const json = () => ({ ...Object.fromEntries(empty), ...toJson(desc, message) as object });
    this.list(() => withNames(json(), names), listing);
  }

  /** Writes a remark for the person, outside the result. */
  note(text: string): void {
    if (!this.values.quiet) writeHint(this.host, text);
  }

  /** The signal that ends calls early. */
  get limits(): { readonly signal: AbortSignal } {
    return { signal: this.signal };
  }

  /** Whether standard error is a terminal, on which a line can be redrawn. */
  get lively(): boolean {
    const { terminal } = this.context;
    return terminal.errors && !this.values.quiet && this.host.env("TERM") !== "dumb";
  }

  /** Shows the progress of long work; with --quiet on no screen. */
  progressBar(work: Progressing): ProgressBar {
    const { context, host, clock, lively: isLive } = this;
    const note = (line: string) => this.note(line);
    return new ProgressBar({ host, note, clock, isLive, columns: context.columns() }, work);
  }

  /** Switches to this control plane. */
  choose(account: Account): void {
    this.close();
    this.#account = account;
  }

  /** The account from flags, environment and profile, in this order; `undefined` if it is incomplete. */
  async account(): Promise<Account | undefined> {
    if (this.#account) return this.#account;
    const { values, host } = this;
    const all = await this.profiles.read();
    const name = values.profile || all.current;
    const named = values.profile !== "" || Object.hasOwn(all.profiles, name);
    const profile = named ? chosen(all, name, this.profiles.path) : undefined;
    const own = values.profile === "" ? givenKey(host) : undefined;
    const baseUrl = values.baseUrl || profile?.baseUrl;
    const credentials = own ?? profile;
    if (!baseUrl || !credentials?.key) return undefined;
    const caFile = values.caFile || profile?.caFile;
    return this.#account = {
      baseUrl,
      keyId: credentials.keyId,
      key: credentials.key,
      organization: values.orgId || (own ? "" : profile?.organizationId ?? ""),
      allowInsecureCredentials: values.allowInsecureCreds || profile?.allowInsecureCreds === true,
      ca: caFile ? await host.readTextFile(caFile) : undefined,
    };
  }

  /** The services. Throws `unauthenticated` if no control plane is configured. */
  async services(): Promise<Services> {
    if (this.#services) return this.#services;
    const account = await this.account();
    if (!account) {
      const wanted = "log in with svc-ml login, or set SVC_BASE_URL, SVC_API_KEY_ID and SVC_API_KEY";
      const own = "svc-ml submit --embedded starts a control plane of your own on this computer";
      throw new SvcError("unauthenticated", `no control plane is configured: ${wanted}; ${own}`);
    }
    const { baseUrl: address, keyId, key, allowInsecureCredentials, ca } = account;
    const channel = connectApp({ address, keyId, key, allowInsecureCredentials, ca, clock: this.clock });
    this.#channel = channel;
    return this.#services = {
      account,
      jobs: new MlTrainingClient(channel),
      app: client(AppService, channel),
      data: client(DataService, channel),
      dataSync: client(DataSyncService, channel),
      datasets: client(DatasetService, channel),
      inference: client(MLInferenceService, channel),
      packages: client(PackageService, channel),
    };
  }

  /** The id of the organization: the chosen one, by id, a beginning of it or name, or the only one. */
  async organization(): Promise<string> {
    const { account: { organization: wanted }, app } = await this.services();
    const { organizations } = await app.listOrganizations({}, this.limits);
    const listed = organizations.map(({ id, name }) => `${name} (${id})`).join(", ") || "none";
    if (wanted !== "") {
      if (organizations.length === 0) {
        throw new SvcError("not_found", `there is no organization "${wanted}" for this key, which sees none`);
      }
      return namedOne("organization", wanted, organizations).id;
    }
    const only = onlyOf(organizations);
    if (only) return only.id;

    const tell = "tell which one with --org-id or SVC_ORG_ID";
    throw new SvcError(
      "invalid_argument",
      `the key sees ${organizations.length} organizations, ${listed}: ${tell}`,
    );
  }

  close(): void {
    this.#channel?.close();
    this.#channel = this.#services = undefined;
  }
}
