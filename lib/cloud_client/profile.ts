/**
 * Profiles: a person's control plane and key, under a name.
 *
 * Owns one file in the program's home folder, readable by the user alone. A write leaves the old or the new file,
 * complete; an unreadable file is reported with its path and never replaced.
 */

import type { Environment } from "../base/host.ts";
import type { ReadFiles, WriteFiles } from "../base/files/files.ts";
import { SvcError } from "../base/error.ts";
import { parseJsonc } from "../base/schema/jsonc.ts";
import { bool, DecodeContext, type Infer, mapOf, object, text } from "../base/schema/schema.ts";
import { Secret, secret } from "../base/secret.ts";

const MODE = 0o600;
/** The profile that is used unless another one is chosen. */
export const DEFAULT_PROFILE = "default";

const profileField = object({
  baseUrl: text("The address of the control plane: https://host:port.").required(),
  keyId: text("The id of the API key, or with a session the e-mail address of its person.").required(),
  key: secret("The API key, or what opens the session.").required(),
  session: bool("The key opens a session of a person.").default(false),
  organizationId: text("The organization that commands are about."),
  organizationName: text("Its name at the time of the login, for lists."),
  allowInsecureCreds: bool("The key may travel without TLS.").default(false),
  caFile: text("A file of certificates (PEM) that are trusted too."),
});
const fileField = object({
  current: text("The profile that is used where none is chosen.").default(DEFAULT_PROFILE),
  profiles: mapOf(profileField, "The profiles by name.").default({}),
});

export type Profile = NonNullable<Infer<typeof profileField>>;

export interface Profiles {
  /** The name of the current profile; no profile may have it. */
  readonly current: string;
  readonly profiles: { readonly [name: string]: Profile };
}

type ProfileHost = Environment & ReadFiles & WriteFiles;

export class ProfileFile {
  readonly #folder: string;

  constructor(private readonly host: ProfileHost, private readonly file = "profiles.json") {
    const user = host.env("HOME") || host.env("USERPROFILE") || ".";
    this.#folder = host.env("SVC_HOME") || `${user}/.svc`;
  }

  get path(): string {
    return `${this.#folder}/${this.file}`;
  }

  /** All profiles; none without a file. Throws `failed_precondition` with every problem of the file. */
  async read(): Promise<Profiles> {
    let bytes: Uint8Array;
    try {
      bytes = await this.host.readFile(this.path);
    } catch (error) {
      if (SvcError.from(error).code === "not_found") return { current: DEFAULT_PROFILE, profiles: {} };
      throw error;
    }
    const place = new DecodeContext();
    const file = fileField.decode(parseJsonc(bytes, { file: this.path }), place);
    const wrong = place.problems.filter(({ severity }) => severity === "error");
    if (file && wrong.length === 0) return file;
    const reported = wrong.map(({ path, message }) => path === "" ? message : `${path}: ${message}`).join(
      "; ",
    );
    throw new SvcError(
      "failed_precondition",
      `${this.path}: ${reported}; mend it, or remove it and log in again`,
    );
  }

  /** Stores a profile under a name and makes it current; with `stay`, only if there is no current one. */
  async save(name: string, profile: Profile, { stay = false } = {}): Promise<void> {
    const { current, profiles } = await this.read();
    const other = stay && Object.hasOwn(profiles, current);
    await this.#write({ current: other ? current : name, profiles: { ...profiles, [name]: profile } });
  }

  /** Makes another profile the current one. */
  async use(name: string): Promise<void> {
    const all = await this.read();
    chosen(all, name, this.path);
    await this.#write({ ...all, current: name });
  }

  async remove(name: string): Promise<void> {
    const all = await this.read();
    chosen(all, name, this.path);
    const { [name]: _, ...profiles } = all.profiles;
    await this.#write({ ...all, profiles });
  }

  async #write({ current, profiles }: Profiles): Promise<void> {
    const written = Object.entries(profiles).map(([name, one]) => [name, {
      base_url: one.baseUrl,
      key_id: one.keyId,
      key: one.key.reveal(),
      session: one.session || undefined,
      organization_id: one.organizationId,
      organization_name: one.organizationName,
      allow_insecure_creds: one.allowInsecureCreds || undefined,
      ca_file: one.caFile,
    }]);
    const text = JSON.stringify({ current, profiles: Object.fromEntries(written) }, null, 2);
    await this.host.makeFolder(this.#folder);
    await this.host.writeFile(this.path, `${text}\n`, { mode: MODE });
  }
}

/** An API key, which comes before the one of a profile. */
export interface GivenKey {
  readonly keyId: string;
  readonly key: Secret;
}

/**
 * The key of the environment, if both of its variables are set. No key has blanks at its ends; a file of variables may
 * bring some, such as the carriage returns of another system.
 */
export function givenKey(host: Environment): GivenKey | undefined {
  const [keyId, key] = ["SVC_API_KEY_ID", "SVC_API_KEY"].map((name) => host.env(name)?.trim());
  return keyId && key ? { keyId, key: new Secret(key) } : undefined;
}

/** The profile with this name; throws `not_found` with the existing names. */
export function chosen({ profiles }: Profiles, name: string, path: string): Profile {
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (found) return found;
  const names = Object.keys(profiles);
  const known = names.length === 0 ? "it holds none" : `it holds ${names.join(", ")}`;
  throw new SvcError("not_found", `there is no profile "${name}" in ${path}: ${known}`);
}
