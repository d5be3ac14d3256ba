/**
 * The device's next step about its networks: try one, open the hotspot, close it. Pure.
 *
 * Owns the rules of provisioning. `decide` takes the observations of one moment and returns the next state and the
 * steps that lead there; it is called periodically and at every change. It has no clock: times are milliseconds of a
 * clock that never goes back, so a wrong date changes nothing.
 *
 * The room owns the device's networks: it decides about them, and carries out the decisions with the system's network
 * service.
 */

/** The settings of these rules. */
export interface ProvisioningRules {
  /** After this time offline the hotspot opens. */
  readonly hotspotAfterMs: number;
  /** After this time the hotspot closes to try networks again. */
  readonly retryAfterMs: number;
  /** A user without activity for this long has left. */
  readonly userIdleMs: number;
  /** If true, the device tries every network, and only internet access counts as online. */
  readonly needsInternet: boolean;
  /** If false, the device tries networks, and never opens a hotspot. */
  readonly mayOpenHotspot: boolean;
}

/** A Wi-Fi network with a profile on the device. */
export interface KnownNetwork {
  readonly ssid: string;
  readonly priority: number;
  /** Whether a user chose it during setup. */
  readonly isChosen: boolean;
  /** Whether a user chose it in place of another one, and it has not connected yet. */
  readonly isTried?: boolean;
  readonly inRange: boolean;
  /** Whether the network shows no name, so that it is tried although no scan finds it. */
  readonly isHidden?: boolean;
  /** Time of the last try; `undefined` once it has come back into range after that. */
  readonly triedMs?: number;
}

/** The observations of one moment. */
export interface Observed {
  readonly nowMs: number;
  /** Whether the device has a machine's credentials. */
  readonly configured: boolean;
  /** The connected Wi-Fi network, unless it is the device's own hotspot. */
  readonly connectedTo?: string;
  /** Whether the internet is reachable. */
  readonly online: boolean;
  readonly networks: readonly KnownNetwork[];
  /** What a person did last on the page, in the app or by Bluetooth. */
  readonly userMs?: number;
  /** When an app has looked last. It may do so by itself, also with nobody before it. */
  readonly lookMs?: number;
  /** Whether a user has submitted something since the last decision: a network to join, credentials. */
  readonly submitted?: { readonly ssid?: string };
  /** Whether the hotspot was requested since the last decision. */
  readonly asked?: boolean;
}

export interface ProvisioningState {
  readonly mode: "normal" | "hotspot";
  /** The start of the mode. */
  readonly sinceMs: number;
  /** When the device was last connected as the rules require. */
  readonly connectedMs: number;
  /** Whether the hotspot was requested: being online does not close it. */
  readonly asked: boolean;
  /** When an app began to look again and again; `undefined` once it has not for as long as a user who has left. */
  readonly looksSinceMs?: number;
  /** Whether a user has just submitted something. If that does not connect the device, the hotspot reopens at once. */
  readonly submitted: boolean;
}

export type Step =
  | { readonly do: "open hotspot"; readonly why: string }
  | { readonly do: "close hotspot"; readonly why: string }
  | { readonly do: "try"; readonly ssid: string; readonly why: string };

export interface Decision {
  readonly state: ProvisioningState;
  /** In this order. The next moment shows whether a `try` has failed. */
  readonly steps: readonly Step[];
}

/** An app that only looks counts as a user for so many times of idleness. */
const LOOKS_COUNT_FOR = 2;
const CHOSEN = "somebody chose it";
const OFFLINE = "the device is offline";

/**
 * The state after the start. A device that knows a network has the full time of the rules to find it; one that knows
 * none opens its hotspot at once.
 */
export function firstState(
  nowMs: number,
  knowsNetworks: boolean,
  rules: ProvisioningRules,
): ProvisioningState {
  const connectedMs = knowsNetworks ? nowMs : nowMs - rules.hotspotAfterMs;
  return { mode: "normal", sinceMs: connectedMs, connectedMs, asked: false, submitted: false };
}

export function decide(state: ProvisioningState, seen: Observed, rules: ProvisioningRules): Decision {
  const connected = isConnected(seen, rules);
  const connectedMs = connected ? seen.nowMs : state.connectedMs;
  const next = { ...state, connectedMs, looksSinceMs: looksSince(state, seen, rules), submitted: false };
  if (state.mode === "hotspot") return inHotspot(next, seen, rules, connected);
  const why = whyHotspot(state, seen, rules, connected);
  return normally(next, seen, why, rules, connected);
}

/**
 * Whether the device is connected as the rules require: to the internet, or, unless the rules need that, to its first
 * network.
 */
export function isConnected(
  { connectedTo, online, networks }: Pick<Observed, "connectedTo" | "online" | "networks">,
  rules: ProvisioningRules,
): boolean {
  if (online) return true;
  if (rules.needsInternet || connectedTo === undefined) return false;
  return connectedTo === firstNetwork(networks)?.ssid ||
    networks.some(({ ssid, isTried }) => isTried && ssid === connectedTo);
}

function normally(
  state: ProvisioningState,
  seen: Observed,
  why: string | undefined,
  rules: ProvisioningRules,
  connected: boolean,
): Decision {
  const { nowMs, submitted, asked = false } = seen;
  if (submitted?.ssid !== undefined && !connected) {
    return { state: { ...state, submitted: true }, steps: [tryOut(submitted.ssid, CHOSEN)] };
  }
  if (why !== undefined && rules.mayOpenHotspot) {
    return {
      state: { ...state, mode: "hotspot", sinceMs: nowMs, asked },
      steps: [{ do: "open hotspot", why }],
    };
  }
  const candidate = connected ? undefined : candidates(seen, rules)[0];
  return { state, steps: candidate ? [tryOut(candidate.ssid, OFFLINE)] : [] };
}

/** Why the hotspot opens, if it does. */
function whyHotspot(
  state: ProvisioningState,
  { nowMs, configured, asked }: Observed,
  { hotspotAfterMs }: ProvisioningRules,
  connected: boolean,
): string | undefined {
  if (asked) return "somebody asked for it";
  if (!configured) return "the device belongs to no machine yet";
  if (state.submitted && !connected) return "the submission did not bring the device online";
  const offlineMs = nowMs - Math.max(state.connectedMs, state.sinceMs);
  if (!connected && offlineMs >= hotspotAfterMs) {
    return `the device has been offline for ${minutes(offlineMs)}`;
  }
  return undefined;
}

function inHotspot(
  state: ProvisioningState,
  seen: Observed,
  rules: ProvisioningRules,
  connected: boolean,
): Decision {
  const why = whyClose(state, seen, rules, connected);
  if (why === undefined) return { state, steps: [] };
  const closed: ProvisioningState = {
    ...state,
    mode: "normal",
    sinceMs: seen.nowMs,
    asked: false,
    submitted: seen.submitted !== undefined,
  };
  const chosen = seen.submitted?.ssid;
  const candidate = chosen ?? (connected ? undefined : candidates(seen, rules)[0]?.ssid);
  return {
    state: closed,
    steps: [
      { do: "close hotspot", why },
      ...candidate === undefined ? [] : [tryOut(candidate, chosen === undefined ? OFFLINE : CHOSEN)],
    ],
  };
}

/** Why the hotspot closes, if it does. */
function whyClose(
  state: ProvisioningState,
  seen: Observed,
  rules: ProvisioningRules,
  connected: boolean,
): string | undefined {
  const { nowMs, configured, submitted } = seen;
  if (submitted) return "somebody submitted the missing values";
  if (!rules.mayOpenHotspot) return "the settings no longer allow it";
  if (isUsed(state, seen, rules)) return undefined;
  const openMs = nowMs - state.sinceMs;
  if (state.asked) return openMs >= rules.retryAfterMs ? `nobody used it for ${minutes(openMs)}` : undefined;
  if (connected && configured) return "the device is online";
  // A network tried before the hotspot opened is due again when the hotspot has been open for its time.
  if (
    configured && candidates(seen, rules).some(({ inRange, triedMs }) => inRange && triedMs === undefined)
  ) {
    return "a known network is in range";
  }
  if (openMs >= rules.retryAfterMs) return `networks are tried again after ${minutes(openMs)}`;
  return undefined;
}

function looksSince(
  { looksSinceMs }: ProvisioningState,
  { nowMs, lookMs }: Observed,
  { userIdleMs }: ProvisioningRules,
): number | undefined {
  const isLooking = lookMs !== undefined && nowMs - lookMs < userIdleMs;
  return isLooking ? looksSinceMs ?? lookMs : undefined;
}

/** Whether a user is there. An app's looks show that for a time only, unless somebody does something meanwhile. */
function isUsed(
  { looksSinceMs }: ProvisioningState,
  { nowMs, userMs = -Infinity, lookMs = -Infinity }: Observed,
  { userIdleMs }: ProvisioningRules,
): boolean {
  if (nowMs - userMs < userIdleMs) return true;
  const sinceMs = Math.max(userMs, looksSinceMs ?? lookMs);
  return nowMs - lookMs < userIdleMs && lookMs - sinceMs < LOOKS_COUNT_FOR * userIdleMs;
}

/**
 * The networks to try, in order: those in range, or hidden, that were not tried since they came into range, or not for
 * as long as the hotspot stays open. Only a new choice and the first network, unless the rules need the internet.
 */
export function candidates({ networks, nowMs }: Observed, rules: ProvisioningRules): readonly KnownNetwork[] {
  const only = firstNetwork(networks);
  const newFirst = byPriority(networks).sort((a, b) =>
    Number(b.isTried ?? false) - Number(a.isTried ?? false)
  );
  return newFirst.filter((network) =>
    (network.inRange || network.isHidden) && (rules.needsInternet || network === only || network.isTried) &&
    (network.triedMs === undefined || nowMs - network.triedMs >= rules.retryAfterMs)
  );
}

/**
 * The network with the highest priority of those that users chose; without a chosen one, of all. Unless the rules need
 * the internet, only it and a new choice are tried.
 */
export function firstNetwork<N extends Pick<KnownNetwork, "ssid" | "priority" | "isChosen" | "isTried">>(
  networks: readonly N[],
): N | undefined {
  const proven = networks.filter(({ isTried }) => !isTried);
  const chosen = proven.filter(({ isChosen }) => isChosen);
  return byPriority(chosen.length > 0 ? chosen : proven)[0];
}

/** The name breaks ties of priority, so that the order is stable. */
function byPriority<N extends Pick<KnownNetwork, "ssid" | "priority">>(networks: readonly N[]): N[] {
  return [...networks].sort((a, b) => b.priority - a.priority || (a.ssid < b.ssid ? -1 : 1));
}

function tryOut(ssid: string, why: string): Step {
  return { do: "try", ssid, why };
}

function minutes(ms: number): string {
  return `${Math.round(ms / 6_000) / 10} min`;
}
