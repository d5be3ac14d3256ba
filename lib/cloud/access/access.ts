/**
 * Authorization: checks every call against one table of rules before it is served.
 *
 * A rule names the role that a call needs and the resources of the request on which it is needed; a role on a resource
 * covers everything inside it. A call without a rule is refused. Each call looks up the key's roles, so revoking a role
 * takes effect at once.
 *
 * The room owns the identity and the rights of callers: API keys, roles, the rule of each call, limits, and the audit
 * log.
 */

import { AppService } from "../../../proto/gen/app_pb.ts";
import { type DescMessage, type DescMethod, type MessageShape } from "../../wire/rpc/proto.ts";
import { assert, SvcError } from "../../base/error.ts";
import type { Auth } from "../../wire/auth/auth.ts";
import { type CallContext, ContextValue, type Gate, pathOf } from "../../wire/rpc/service.ts";
import { type Grant, GRANT_KINDS, type GrantKind, type KeyUses, type Role, ROLES } from "./keys.ts";
import { locationsAbove } from "../tenants/locations.ts";
import { type Lookup, lookup } from "../store/lookups.ts";
import type { Store } from "../store/store.ts";
import { IS_ADMINISTRATOR, requireAdministrator } from "./administrators.ts";

export type Kind =
  | GrantKind
  | "part"
  | "key"
  | "fragment"
  | "data"
  | "sequence"
  | "dataset"
  | "training_job"
  | "container"
  | "mapping_session"
  | "pipeline"
  | "saved_query"
  | "sequence_export"
  | "rollout"
  | "package";

/** The subject of a call. */
export interface Ref {
  readonly kind: Kind;
  readonly id: string;
}

/**
 * The access level that a call needs. `machine`: a role on the machine itself, such as the key in its file has, not only
 * on its location. `machine_or_owner`: the same, or an owner's role; this level sees the machine's secrets.
 */
export type AccessLevel = Role | "machine" | "machine_or_owner";

/**
 * `unauthenticated`: the call needs no token. `authenticated`: any valid token; the handler limits the answer to the
 * caller's resources. `administrator`: only those whom the operator of the control plane has appointed, regardless of
 * roles.
 */
export type CallerNeed = "unauthenticated" | "authenticated" | "administrator" | AccessLevel;

/**
 * The field of a request that names resources: an id, a list of ids, or one or several authorizations. Dots lead into
 * nested messages: `metadata.partId`. A bar separates an older and a newer field, which both count.
 */
export interface RequestField {
  readonly kind: Kind | "authorized";
  readonly field: string;
}

export interface Rule {
  readonly path: string;
  readonly method: DescMethod;
  readonly need: CallerNeed;
  /** The first field is required; the others count if they are not empty. */
  readonly on: readonly RequestField[];
  /** The fields that count if the first one is empty; the role is needed on every resource that they name. */
  readonly instead?: readonly RequestField[];
  /** Keys of training jobs may make the call, too. */
  readonly forJobs?: boolean;
  /** The request need not name a resource: the handler limits itself to the caller's (`Access.reach`). */
  readonly open?: boolean;
  /**
   * This role on something inside the resource is enough, or in the organization of a dataset: the handler limits itself
   * to what the caller's roles cover.
   */
  readonly partly?: Role;
}

type Field<M extends { input: DescMessage }> =
  | (keyof MessageShape<M["input"]> & string)
  | `${string}.${string}`;

/** One row of the table: `rule(method, "owner", ["machine", "id"])`. */
export function rule<M extends DescMethod & { input: DescMessage }>(
  method: M,
  need: CallerNeed,
  ...on: [RequestField["kind"], Field<M>][]
): Rule {
  return { path: pathOf(method), method, need, on: on.map(([kind, field]) => ({ kind, field })) };
}

/** A grant of the caller: of its key, or of the part whose secret it has presented. */
export type EffectiveGrant = Omit<Grant, "kind"> & { readonly kind: GrantKind | "part" };

/** The result of the admission of a call. */
export interface Admission {
  /** The organization of the first resource that the call names. */
  readonly organizationId: string;
  /** Whether the caller's roles on every resource of the call satisfy `need`. */
  has(need: AccessLevel): boolean;
}

interface Caller {
  /** The group whose share of the database's time its calls use. */
  readonly group: string;
  readonly grants: readonly EffectiveGrant[];
  /** Shared access: roles on locations that are shared with its organizations. */
  readonly sharedGrants: readonly Grant[];
  /** Whether the key belongs to a training job. */
  readonly ofJob: boolean;
}

/** The containers of a resource that count. */
interface Scope {
  readonly organization: string;
  readonly locations: readonly string[];
  readonly machine?: string;
  readonly part?: string;
}

interface Enclosing {
  readonly organization: string;
  readonly location?: string;
  /** The containers of the location. */
  readonly parent?: string | null;
  readonly machine?: string;
  readonly part?: string;
}

/** Roles of a key that a lookup reads; few keys have more. */
const ROLES_MAX = 32;

/**
 * A column of `table`, if the machine still belongs to the organization there: roles on a machine do not open data that
 * it has left behind in another organization.
 */
function stillIn(table: string, column: string): string {
  return `CASE WHEN ${table}.organization_id = (SELECT ml.organization_id FROM machines mm
      JOIN locations ml ON ml.id = mm.location_id WHERE mm.id = ${table}.machine_id)
    THEN ${table}.${column} END`;
}

const CALLER = lookup(
  `SELECT g.role, g.kind, g.resource_id AS "resourceId", k.organization_id AS organization, 0 AS guest,
     CASE WHEN EXISTS (SELECT 1 FROM training_jobs j WHERE j.key_id = k.id) THEN 1 ELSE 0 END AS jobs
   FROM api_keys k LEFT JOIN grants g ON g.key_id = k.id WHERE k.id = ?
   UNION ALL
   SELECT CASE WHEN g.role = 'viewer' THEN 'viewer' ELSE 'operator' END, 'location', s.location_id, NULL, 1, 0
   FROM grants g JOIN location_shares s ON s.organization_id = g.resource_id
   WHERE g.key_id = ? AND g.kind = 'organization'`,
  ROLES_MAX,
);

const KEY = lookup(
  `SELECT k.organization_id AS organization, g.kind, g.resource_id AS "on", a.id AS account
   FROM api_keys k LEFT JOIN grants g ON g.key_id = k.id LEFT JOIN accounts a ON a.id = k.id WHERE k.id = ?`,
  ROLES_MAX,
);

const ENCLOSING: { readonly [K in Exclude<Kind, "key">]: string | Lookup } = {
  organization: lookup("SELECT id AS organization FROM organizations WHERE id = ?"),
  location: lookup(
    `SELECT organization_id AS organization, id AS location, parent_id AS parent FROM locations WHERE id = ?`,
  ),
  machine: lookup(
    `SELECT l.organization_id AS organization, l.id AS location, l.parent_id AS parent, m.id AS machine
    FROM machines m JOIN locations l ON l.id = m.location_id WHERE m.id = ?`,
  ),
  part: lookup(
    `SELECT l.organization_id AS organization, l.id AS location, l.parent_id AS parent, m.id AS machine,
      p.id AS part
    FROM parts p JOIN machines m ON m.id = p.machine_id JOIN locations l ON l.id = m.location_id WHERE p.id = ?`,
  ),
  // By each of the ids that `Packages.item` accepts.
  package: `SELECT i.organization_id AS organization FROM registry_items i
    JOIN organizations o ON o.id = i.organization_id WHERE ? IN (i.organization_id || ':' || i.name,
    i.organization_id || '/' || i.name, o.namespace || ':' || i.name, o.namespace || '/' || i.name)`,
  fragment: lookup("SELECT organization_id AS organization FROM fragments WHERE id = ?"),
  // Data may outlive its location.
  data: lookup(`SELECT o.organization_id AS organization, o.location_id AS location, l.parent_id AS parent,
      ${stillIn("o", "machine_id")} AS machine, ${stillIn("o", "part_id")} AS part
    FROM binary_data d JOIN data_origins o ON o.id = d.origin_id LEFT JOIN locations l ON l.id = o.location_id
    WHERE d.id = ?`),
  sequence: lookup(
    `SELECT s.organization_id AS organization, s.location_id AS location, l.parent_id AS parent,
      ${stillIn("s", "machine_id")} AS machine, ${stillIn("s", "part_id")} AS part
    FROM sequences s LEFT JOIN locations l ON l.id = s.location_id WHERE s.id = ?`,
  ),
  mapping_session: lookup(
    `SELECT s.organization_id AS organization, s.location_id AS location, l.parent_id AS parent,
      ${stillIn("s", "machine_id")} AS machine
    FROM mapping_sessions s LEFT JOIN locations l ON l.id = s.location_id WHERE s.id = ?`,
  ),
  dataset: lookup("SELECT organization_id AS organization FROM datasets WHERE id = ?"),
  pipeline: lookup("SELECT organization_id AS organization FROM data_pipelines WHERE id = ?"),
  sequence_export: lookup("SELECT organization_id AS organization FROM sequence_exports WHERE id = ?"),
  rollout: lookup("SELECT organization_id AS organization FROM rollouts WHERE id = ?"),
  saved_query: lookup("SELECT organization_id AS organization FROM saved_queries WHERE id = ?"),
  container: lookup("SELECT organization_id AS organization FROM training_containers WHERE id = ?"),
  training_job: lookup("SELECT organization_id AS organization FROM training_jobs WHERE id = ?"),
};

/** The organization of a thing, if it exists and has one. */
export async function enclosingOrganization(
  sql: Pick<Store, "query">,
  { kind, id }: { readonly kind: string; readonly id: string },
): Promise<string | undefined> {
  const text = kind === "key" ? KEY : (ENCLOSING as { readonly [kind: string]: string | Lookup })[kind];
  if (!text) return undefined;
  const [row] = await sql.query<{ organization: string | null }>(text, id);
  return row?.organization ?? undefined;
}

export const ACCESS_LOOKUPS = [CALLER, KEY, IS_ADMINISTRATOR, ...Object.values(ENCLOSING)].filter((one) =>
  typeof one !== "string"
);

/** Resources of a call that are looked up before it is known whether the caller has any role. */
const REFS_TOGETHER = 8;
/** Callers whose organization is remembered. */
const GROUPS_KNOWN_MAX = 20_000;

const JOBS_READ = "the key of a training job reads captured data and datasets, and does nothing else";

export class Access {
  readonly #rules: ReadonlyMap<string, Rule>;
  /** Groups of recently admitted callers; until its admission a caller is its own group. */
  readonly #groups = new Map<string, string>();
  readonly #admissions = new ContextValue<Admission>();
  /** Reads that methods begin before their caller is admitted, and their results for present calls. */
  readonly #early = new Map<string, (request: unknown) => Promise<unknown>>();
  readonly #begun = new ContextValue<Promise<unknown>>();

  /** `uses` is notified of each key whose call is admitted. */
  constructor(
    private readonly sql: Pick<Store, "query" | "forCaller">,
    rules: readonly Rule[],
    private readonly uses?: Pick<KeyUses, "saw">,
  ) {
    this.#rules = new Map(rules.map((rule) => [rule.path, rule]));
  }

  /**
   * Admits the calls that the rules allow: `guard` identifies the caller by the header, then the rule is checked
   * against the request, and the key with it, in one trip to the database. Reports refusals to `refused`. `watch` is
   * called for each admitted call, with its organization and the check, and returns what is called at its end.
   */
  gate(
    guard: Pick<Auth, "gate" | "recheck">,
    refused: (ctx: CallContext, refs: readonly Ref[]) => Promise<void>,
    watch: (ctx: CallContext, group: string, check: () => Promise<void>) => () => void,
  ): Gate {
    return {
      authenticate: (ctx) =>
        this.#ruleOf(ctx).need === "unauthenticated" ? undefined : guard.gate.authenticate(ctx),
      within: (ctx, serve) => this.#forCaller(ctx, serve),
      authorize: async (ctx, request) => {
        const rule = this.#ruleOf(ctx);
        if (rule.need === "unauthenticated") return;
        const refs = ["authenticated", "administrator"].includes(rule.need) ? [] : refsOf(rule, request);
        // Only after the request has arrived: the key may have lost its roles meanwhile.
        const check = () => this.#forCaller(ctx, admit);
        const admit = async () => {
          // All lookups go to the database in one trip.
          const looked = refs.slice(0, REFS_TOGETHER).map((ref) => this.#scopes(ref));
          const asked = this.#readCaller(ctx.entity);
          for (const one of [asked, ...looked]) one.catch(() => {});
          this.#begin(ctx, request);
          await guard.recheck(ctx);
          const { grants, sharedGrants, ofJob, group } = await asked;
          this.#remember(ctx.entity!, group);
          this.uses?.saw(ctx.entity!);
          if (ofJob && !rule.forJobs) throw new SvcError("permission_denied", JOBS_READ);
          if (rule.need === "administrator") await requireAdministrator(this.sql, ctx.entity!);
          const effective = allowsSharedAccess(rule) ? [...grants, ...sharedGrants] : grants;
          const found: Scope[] = [];
          for (const [at, ref] of refs.entries()) {
            const scopes = await (looked[at] ?? this.#scopes(ref));
            if (!rule.partly || !await this.#isInside(grants.filter(atLeast(rule.partly)), ref, scopes)) {
              requireRole(effective, rule.need as Role, ref, scopes);
            }
            if (at < REFS_TOGETHER) found.push(...scopes);
          }
          if (found.length === 0 || refs.length > REFS_TOGETHER) return;
          this.#admissions.set(ctx, admissionOf([...grants, ...sharedGrants], found));
        };
        try {
          await check();
        } catch (error) {
          if (SvcError.from(error).code === "permission_denied") await refused(ctx, refs);
          throw error;
        }
        return watch(ctx, this.groupOf(ctx), check);
      },
    };
  }

  /**
   * Makes each call of a method read in the same trip to the database in which its caller is looked up. Only the
   * handler of an admitted call gets the result, from the returned function; `read` must have no effects.
   */
  readEarly<M extends DescMethod, T>(
    method: M,
    read: (request: MessageShape<M["input"]>) => Promise<T>,
  ): (ctx: CallContext) => Promise<T> {
    const path = pathOf(method);
    this.#early.set(path, read as (request: unknown) => Promise<unknown>);
    return (ctx) => {
      const begun = this.#begun.get(ctx);
      if (begun) return begun as Promise<T>;
      throw new SvcError("internal", `${path} was not admitted`);
    };
  }

  /** Runs once per call, although its caller is checked again later. */
  #begin(ctx: CallContext, request: unknown): void {
    const read = this.#early.get(ctx.path);
    if (!read || this.#begun.get(ctx)) return;
    const begun = read(request);
    // If the caller is refused, nobody handles the error.
    begun.catch(() => {});
    this.#begun.set(ctx, begun);
  }

  /** The result of the admission of a call whose rule names resources, which saves another lookup. */
  admissionOf(ctx: CallContext): Admission {
    const found = this.#admissions.get(ctx);
    if (found) return found;
    throw new SvcError("internal", `${ctx.path} was not admitted by a rule that names a few resources`);
  }

  #forCaller<T>(ctx: CallContext, work: () => T): T {
    return this.sql.forCaller({ group: this.groupOf(ctx), signal: ctx.signal }, work);
  }

  /** Whose share of the control plane a call uses. */
  groupOf({ entity, peer }: Pick<CallContext, "entity" | "peer">): string {
    if (entity === undefined) return `address ${peer.remoteAddress}`;
    return this.#groups.get(entity) ?? `key ${entity}`;
  }

  #remember(entity: string, group: string): void {
    if (this.#groups.get(entity) === group) return;
    if (this.#groups.size >= GROUPS_KNOWN_MAX) this.#groups.clear();
    this.#groups.set(entity, group);
  }

  #ruleOf({ path }: CallContext): Rule {
    const found = this.#rules.get(path);
    if (!found) throw new SvcError("permission_denied", `${path} is not open to anybody`);
    return found;
  }

  /** The roles of a key. Throws `unauthenticated` if there is no such key. */
  async readGrants(keyId: string | undefined): Promise<readonly EffectiveGrant[]> {
    return (await this.#readCaller(keyId)).grants;
  }

  async #readCaller(keyId: string = ""): Promise<Caller> {
    const rows = await this.sql.query<
      Partial<Grant> & { organization: string | null; jobs: number; guest: number }
    >(
      CALLER,
      keyId,
      keyId,
    );
    if (rows.length === 0) return await this.#asPart(keyId);
    const grants = (guest: number) =>
      rows.filter((row): row is Grant & typeof row => Boolean(row.role) && Number(row.guest) === guest);
    const organization = rows.find((row) => row.organization !== null)?.organization;
    return {
      group: organization ?? `key ${keyId}`,
      grants: grants(0),
      sharedGrants: grants(1),
      ofJob: rows.some(({ jobs }) => Number(jobs) > 0),
    };
  }

  /** A caller with a part's secret is this part, and nothing else. */
  async #asPart(id: string): Promise<Caller> {
    const [row] = await this.sql.query<Enclosing>(ENCLOSING.part, id);
    if (!row) {
      throw new SvcError("unauthenticated", "unauthenticated: the API key no longer exists");
    }
    const grants = [{ role: "operator", kind: "part", resourceId: id }] as const;
    return { group: row.organization, grants, sharedGrants: [], ofJob: false };
  }

  /** Whether a person may own the key: some keys belong to machines, and open only these, others to training jobs. */
  async isPersonal(keyId: string | undefined): Promise<boolean> {
    const { grants, ofJob } = await this.#readCaller(keyId);
    return !ofJob && grants.some(({ kind }) => kind !== "machine" && kind !== "part");
  }

  /** The resources on which a key has a role that satisfies `need`. */
  async reach(keyId: string | undefined, need: Role): Promise<EffectiveGrant[]> {
    return (await this.readGrants(keyId)).filter(atLeast(need));
  }

  /** The organizations in which a key has a role on anything that satisfies `need`. */
  async readOrganizations(keyId: string | undefined, need: Role = "viewer"): Promise<string[]> {
    const scopes = (await this.reach(keyId, need)).map(({ kind, resourceId }) =>
      this.#scopes({ kind, id: resourceId })
    );
    return [...new Set((await Promise.all(scopes)).flat().map(({ organization }) => organization))];
  }

  /** Whether one of these roles is on something inside a resource. A part's secret opens that part alone. */
  async #isInside(
    grants: readonly EffectiveGrant[],
    { kind, id }: Ref,
    [scope]: readonly Scope[],
  ): Promise<boolean> {
    const ofOrganization = kind === "organization" || kind === "dataset" ? scope?.organization : undefined;
    for (const { kind: on, resourceId } of grants) {
      if (on === "part" || on === "organization") continue;
      for (const { organization, locations } of await this.#scopes({ kind: on, id: resourceId })) {
        if (ofOrganization === organization || kind === "location" && locations.includes(id)) return true;
      }
    }
    return false;
  }

  /** Whether a key's role on a resource satisfies `need`. */
  async may(keyId: string | undefined, need: AccessLevel, ref: Ref): Promise<boolean> {
    const { grants: own, sharedGrants } = await this.#readCaller(keyId);
    const grants = [...own, ...sharedGrants];
    try {
      requireRole(grants, need, ref, await this.#scopes(ref));
      return true;
    } catch (error) {
      if (["permission_denied", "not_found"].includes(SvcError.from(error).code)) return false;
      throw error;
    }
  }

  /** The containers of a resource. */
  async #scopes({ kind, id }: Ref): Promise<Scope[]> {
    if (kind === "key") return await this.#scopesOfKey(id);
    const [row] = await this.sql.query<Enclosing>(ENCLOSING[kind], id);
    if (!row) throw missing(kind, id);
    const { organization, location, parent, machine, part } = row;
    const above = parent ? await locationsAbove(this.sql, parent) : [];
    return [{ organization, machine, part, locations: location ? [location, ...above] : [] }];
  }

  /**
   * A key is in every place of its organization that it opens, and in the organization itself if it opens none. Roles
   * that other organizations gave it do not count: they give those organizations no rights over the key, and take none
   * from the owner.
   */
  async #scopesOfKey(id: string): Promise<Scope[]> {
    const rows = await this.sql.query<
      { organization: string | null; kind: GrantKind | null; on: string; account: string | null }
    >(
      KEY,
      id,
    );
    const [first] = rows;
    if (!first) throw missing("key", id);
    const { organization, account } = first;
    if (account !== null) {
      throw new SvcError("permission_denied", `"${id}" is the account of a person, and no API key`);
    }
    if (organization === null) {
      const wanted = "the operator of the control plane assigns it: svc-cloud key own ID --org NAME";
      throw new SvcError("permission_denied", `key "${id}" belongs to no organization; ${wanted}`);
    }
    const opened = rows.flatMap(({ kind, on }) => kind ? [this.#scopes({ kind, id: on })] : []);
    const own = (await Promise.all(opened)).flat().filter((scope) => scope.organization === organization);
    return own.length > 0 ? own : [{ organization, locations: [] }];
  }
}

function admissionOf(grants: readonly EffectiveGrant[], scopes: readonly Scope[]): Admission {
  const [first] = scopes;
  assert(first, "a call was admitted to nothing");
  const has = (need: AccessLevel) =>
    scopes.every((scope) => grants.some((grant) => isEnough(grant, need, scope)));
  return { organizationId: first.organization, has };
}

function requireRole(
  grants: readonly EffectiveGrant[],
  need: AccessLevel,
  ref: Ref,
  scopes: readonly Scope[],
): void {
  for (const scope of scopes) {
    if (grants.some((grant) => isEnough(grant, need, scope))) continue;
    throw new SvcError(
      "permission_denied",
      `this needs an API key that is ${NEEDED[need]} ${wordsOf(ref.kind)} "${ref.id}"`,
    );
  }
}

/** A machine's data reaches the people of its own organization only (`sharing.ts`). */
function allowsSharedAccess({ method }: Rule): boolean {
  return method.parent.typeName === AppService.typeName;
}

function reaches(
  { kind, resourceId }: EffectiveGrant,
  { organization, locations, machine, part }: Scope,
): boolean {
  if (kind === "organization") return resourceId === organization;
  if (kind === "location") return locations.includes(resourceId);
  return resourceId === (kind === "machine" ? machine : part);
}

const NEEDED: { readonly [N in AccessLevel]: string } = {
  viewer: "viewer of",
  operator: "operator of",
  owner: "owner of",
  machine: "the machine's own, with a role on the machine itself, of",
  machine_or_owner: "owner, or the machine's own, of",
};

function atLeast(need: Role): (grant: Pick<Grant, "role">) => boolean {
  return ({ role }) => ROLES.indexOf(role) >= ROLES.indexOf(need);
}

function isEnough(grant: EffectiveGrant, need: AccessLevel, scope: Scope): boolean {
  if (!reaches(grant, scope)) return false;
  if (need === "viewer") return true;
  if (grant.role === "viewer") return false;
  if (need === "operator") return true;
  if (need !== "machine" && grant.role === "owner") return true;
  return need !== "owner" && (grant.kind === "machine" || grant.kind === "part");
}

/** Limit of the resources that one call may name. */
const REFS_MAX = 10_000;

function missing(kind: Kind, id: string): SvcError {
  return new SvcError("not_found", `there is no ${wordsOf(kind)} "${id}"`);
}

function wordsOf(kind: Kind): string {
  return kind.replaceAll("_", " ");
}

function someOf(kind: Kind): string {
  if (kind === "data") return "captured data";
  return `${kind === "organization" ? "an" : "a"} ${wordsOf(kind)}`;
}

/** The subjects of a request. Throws `invalid_argument` if it names none. */
function refsOf({ on, instead = [], path, method, open }: Rule, request: unknown): Ref[] {
  // A repeated name is looked up only once.
  const refs = new Map<string, Ref>();
  const take = (place: RequestField) => {
    for (const ref of refsAt(place, method.input, request)) refs.set(`${ref.kind} ${ref.id}`, ref);
  };
  for (const [index, place] of on.entries()) {
    take(place);
    if (index > 0 || refs.size > 0 || open) continue;
    instead.forEach(take);
    if (refs.size > 0) continue;
    const { kind, field } = place;
    const wanted = kind === "authorized" ? "an authorization" : `the id of ${someOf(kind)}`;
    const or = instead.map(({ field }) => `, or ${publishedName(method.input, field)}`).join("");
    const name = publishedName(method.input, field);
    throw new SvcError("invalid_argument", `${path}: ${name} is empty, wanted ${wanted}${or}`);
  }
  if (refs.size === 0 && !open) {
    throw new SvcError("permission_denied", `${path}: its rule names no resource`);
  }
  if (refs.size <= REFS_MAX) return [...refs.values()];
  throw new SvcError(
    "invalid_argument",
    `${path}: found ${refs.size} ids, wanted at most ${REFS_MAX} in one call`,
  );
}

function refsAt({ kind, field }: RequestField, desc: DescMessage, request: unknown): Ref[] {
  const values = field.split("|").flatMap((one) => valueAt(desc, request, one));
  if (kind === "authorized") return values.map(authorizedOn);
  return values.filter((id) => typeof id === "string" && id !== "").map((id) => ({ kind, id }) as Ref);
}

/**
 * A rule's field in the published spelling, `metadata.part_id`; if there is an older and a newer field, the newer one.
 */
function publishedName(desc: DescMessage, path: string): string {
  const names: string[] = [];
  let at: DescMessage | undefined = desc;
  for (const word of path.split("|").at(-1)!.split(".")) {
    const field: DescMessage["field"][string] | undefined = at?.field[word];
    names.push(field?.name ?? word);
    at = field?.message;
  }
  return names.join(".");
}

/** The values of a message's field, also inside nested messages, lists of them, and oneofs. */
function valueAt(desc: DescMessage, message: unknown, path: string): unknown {
  const [name = "", ...rest] = path.split(".");
  const field = desc.field[name];
  const fields = message as { readonly [name: string]: unknown } | undefined;
  const chosen = field?.oneof &&
    fields?.[field.oneof.localName] as { case?: string; value?: unknown } | undefined;
  const written = chosen ? chosen.value : fields?.[name];
  const value = chosen && chosen.case !== name ? undefined : written;
  if (rest.length === 0 || !field?.message) return value;
  return [value].flat().flatMap((one) => valueAt(field.message!, one, rest.join(".")));
}

/** The published words for the kinds of things that roles are given on. */
export const RESOURCE_TYPES: { readonly [K in GrantKind]: string } = {
  organization: "organization",
  location: "location",
  machine: "robot",
};

function authorizedOn(value: unknown): Ref {
  const { resourceType = "", resourceId = "" } = (value ?? {}) as Partial<Record<string, string>>;
  const kind = GRANT_KINDS.find((one) => RESOURCE_TYPES[one] === resourceType);
  if (kind && resourceId) return { kind, id: resourceId };
  throw new SvcError(
    "invalid_argument",
    `an authorization on ${JSON.stringify(resourceType)} ${
      JSON.stringify(resourceId)
    }, wanted a resource_type of ` +
      `${Object.values(RESOURCE_TYPES).join(", ")} and a resource_id`,
  );
}
