/**
 * Who may call a machine's port: the credentials of its configuration, and the keys that sign its tokens.
 *
 * While callers must authenticate, the same object checks them, so that tokens outlive a port.
 */

import { escapedLine } from "../../../base/escape.ts";
import type { Logger } from "../../../base/log/log.ts";
import { type Auth, auth, type AuthSettings } from "../../../wire/auth/auth.ts";
import type { Attempt } from "../../../wire/auth/rate_limit.ts";
import { TokenKeyRing, type TokenKeyRingParts } from "../../../wire/auth/key_ring.ts";
import type { MachineConfig } from "../../config/config.ts";
import { atHome } from "../../config/upload_rules.ts";
import { Permissions } from "../permissions.ts";

/** Length limit of an id in a request. */
const KEY_ID_CHARS_MAX = 64;

export interface PortGuardParts extends TokenKeyRingParts {
  /** The program's home folder. */
  readonly home: string;
  readonly logger: Logger;
}

export class PortGuard {
  /** What each admitted caller may call. */
  readonly permissions: Permissions;
  #auth: Auth | undefined;
  #settings: AuthSettings | undefined;

  private constructor(
    config: MachineConfig,
    private readonly keys: TokenKeyRing,
    private readonly parts: PortGuardParts,
  ) {
    this.permissions = new Permissions(config.auth.userPermissions);
    this.#settings = authSettingsOf(config);
    this.#auth = createAuth(this.#settings, keys, parts);
    keys.onChange(() => this.#settings && this.#auth?.change(this.#settings));
  }

  static async open(config: MachineConfig, parts: PortGuardParts): Promise<PortGuard> {
    const keys = await TokenKeyRing.open(tokenKeysPath(config, parts), parts);
    return new PortGuard(config, keys, parts);
  }

  /** Checks the callers of the open port; `undefined` where everybody may call. */
  get auth(): Auth | undefined {
    return this.#auth;
  }

  /** Callers of the open port need the credentials of `config` from now on, if they need any. */
  change(config: MachineConfig): void {
    this.permissions.change(config.auth.userPermissions);
    this.#settings = authSettingsOf(config);
    if (this.#settings && this.#auth) this.#auth.change(this.#settings);
  }

  /** Checks the callers of a port that is opened for `config`. */
  authFor(config: MachineConfig): Auth | undefined {
    const settings = authSettingsOf(config);
    return this.#auth && settings ? this.#auth : createAuth(settings, this.keys, this.parts);
  }

  /** The port for which this was made is open. */
  use(auth: Auth | undefined): void {
    this.#auth = auth;
  }

  /** Keeps the keys of tokens where `config` says. */
  async moveKeys(config: MachineConfig): Promise<void> {
    await this.keys.moveTo(tokenKeysPath(config, this.parts));
  }

  async close(): Promise<void> {
    await this.keys.close();
  }
}

function createAuth(
  settings: AuthSettings | undefined,
  { good: signingKeys, salt }: TokenKeyRing,
  { clock, logger }: PortGuardParts,
): Auth | undefined {
  const tooManyTries = ({ type, id, address }: Attempt) =>
    logger.warn("too many wrong keys; the caller is slowed down", {
      type,
      key: escapedLine(id.slice(0, KEY_ID_CHARS_MAX)),
      address,
    });
  return settings && auth({ ...settings, signingKeys, salt, tooManyTries, clock });
}

/** The path of the file for token keys, if it is configured and there are tokens. */
function tokenKeysPath(config: MachineConfig, { home }: PortGuardParts): string | undefined {
  const { tokenKeysFile: path } = config.auth;
  if (path === undefined || !authSettingsOf(config)) return undefined;
  return atHome(path, home);
}

/** Who may call; `undefined` where everybody may. */
export function authSettingsOf(config: MachineConfig): AuthSettings | undefined {
  const { auth, cloud } = config;
  const { apiKeys, publicKeys, tlsAuthEntities } = auth;
  const secrets = [cloud?.locationSecret, ...cloud?.locationSecrets.map((one) => one.secret) ?? []];
  const locationSecrets = secrets.flatMap((secret) => secret ? [secret.reveal()] : []);
  const names = machineNamesOf(config);
  const handlers = {
    apiKeys: apiKeys && Object.fromEntries(Object.entries(apiKeys).map(([id, key]) => [id, key.reveal()])),
    locationSecrets: locationSecrets.length > 0 ? locationSecrets : undefined,
    externalKeys: publicKeys.length > 0 ? publicKeys : undefined,
  };
  const certificateNames = tlsAuthEntities.length > 0 ? tlsAuthEntities : undefined;
  const guarded = [...Object.values(handlers), certificateNames].some((one) => one !== undefined);
  if (!guarded) return undefined;
  const audience = names.length > 0 ? names : ["localhost"];
  return { handlers, certificateNames, audience, limits: auth.limits };
}

/** The names under which the machine is called. */
export function machineNamesOf({ network, cloud }: MachineConfig): readonly string[] {
  return [network.fqdn, cloud?.fqdn, cloud?.localFqdn].filter((name) => name !== undefined);
}
