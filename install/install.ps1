# Installs svc-agent as a Windows service; svc-agent then installs and runs svc-server.
#
#   $env:SVC_API_KEY_ID="…"; $env:SVC_API_KEY="…"; $env:SVC_PART_ID="…"; irm http://CLOUD/install.ps1 | iex
#
# SVC_ROOT_URL, SVC_AGENT_URL, SVC_VERSION, SVC_SUMS, SVC_UNSIGNED and FORCE work as in install.sh.
$ErrorActionPreference = "Stop"
$ProgressPreference = "SilentlyContinue"

$servedFrom = '@ROOT_URL@'
$root = if ($env:SVC_ROOT_URL) { $env:SVC_ROOT_URL } else { $servedFrom }
# The authority of the control plane that served this script, if it serves with its own certificate.
$servedAuthority = '@AUTHORITY@'
$folder = "$env:ProgramData\svc"
$base = "$folder\agent"
$credentials = "$folder\svc.json"
# SYSTEM and the administrators, by the numbers that they have in every language.
$system = "*S-1-5-18"
$administrators = "*S-1-5-32-544"

# The public half of the project's key, which signs SHA256SUMS.
$projectKey = 'huKUPMLuDP/3KAkKfA3tYA1FGPJNiKZt3vKSsO+JRSc='

function Fail($message) { throw "install.ps1: $message" }

# Ed25519 (RFC 8032), which neither Windows nor .NET has. It handles public values only, so its time may depend on them.
$ed25519 = @'
using System;
using System.Numerics;
using System.Security.Cryptography;

public static class SvcEd25519
{
    static readonly BigInteger P = BigInteger.Pow(2, 255) - 19;
    static readonly BigInteger Order = BigInteger.Pow(2, 252) + BigInteger.Parse("27742317777372353535851937790883648493");
    static readonly BigInteger D = Mod(-121665 * Inverse(121666));
    static readonly BigInteger RootOfMinusOne = BigInteger.ModPow(2, (P - 1) / 4, P);
    static readonly BigInteger[] Base = Point(Mod(4 * Inverse(5)), false);

    /// Whether the key has signed the message.
    public static bool Verify(byte[] key, byte[] message, byte[] signature)
    {
        if (key.Length != 32 || signature.Length != 64) return false;
        BigInteger[] a = Decode(key, 0), r = Decode(signature, 0);
        BigInteger s = Number(signature, 32, 32);
        if (a == null || r == null || s >= Order) return false;
        byte[] hashed = new byte[64 + message.Length];
        Array.Copy(signature, 0, hashed, 0, 32);
        Array.Copy(key, 0, hashed, 32, 32);
        Array.Copy(message, 0, hashed, 64, message.Length);
        byte[] hash;
        using (SHA512 sha = SHA512.Create()) { hash = sha.ComputeHash(hashed); }
        BigInteger[] left = Times(s, Base), right = Add(r, Times(Number(hash, 0, 64) % Order, a));
        return Mod(left[0] * right[2] - right[0] * left[2]).IsZero && Mod(left[1] * right[2] - right[1] * left[2]).IsZero;
    }

    static BigInteger Mod(BigInteger value)
    {
        BigInteger rest = value % P;
        return rest.Sign < 0 ? rest + P : rest;
    }

    static BigInteger Inverse(BigInteger value) { return BigInteger.ModPow(Mod(value), P - 2, P); }

    /// Little-endian, without a sign.
    static BigInteger Number(byte[] bytes, int from, int count)
    {
        byte[] copy = new byte[count + 1];
        Array.Copy(bytes, from, copy, 0, count);
        return new BigInteger(copy);
    }

    static BigInteger[] Decode(byte[] bytes, int from)
    {
        BigInteger y = Number(bytes, from, 32);
        bool isOdd = (bytes[from + 31] & 128) != 0;
        if (isOdd) y -= BigInteger.Pow(2, 255);
        return y >= P ? null : Point(y, isOdd);
    }

    /// The point of the curve with this y, and an even or odd x; null if there is none.
    static BigInteger[] Point(BigInteger y, bool isOdd)
    {
        BigInteger square = Mod((y * y - 1) * Inverse(D * y * y + 1));
        BigInteger x = BigInteger.ModPow(square, (P + 3) / 8, P);
        if (!Mod(x * x - square).IsZero) x = Mod(x * RootOfMinusOne);
        if (!Mod(x * x - square).IsZero || x.IsZero && isOdd) return null;
        if (x.IsEven == isOdd) x = P - x;
        return new BigInteger[] { x, y, 1, Mod(x * y) };
    }

    /// In extended coordinates: x/z, y/z, z, xy/z.
    static BigInteger[] Add(BigInteger[] p, BigInteger[] q)
    {
        BigInteger a = Mod((p[1] - p[0]) * (q[1] - q[0])), b = Mod((p[1] + p[0]) * (q[1] + q[0]));
        BigInteger c = Mod(2 * D * p[3] * q[3]), d = Mod(2 * p[2] * q[2]);
        BigInteger e = b - a, f = d - c, g = d + c, h = b + a;
        return new BigInteger[] { Mod(e * f), Mod(g * h), Mod(f * g), Mod(e * h) };
    }

    static BigInteger[] Times(BigInteger count, BigInteger[] point)
    {
        BigInteger[] sum = new BigInteger[] { 0, 1, 1, 0 };
        for (; !count.IsZero; count >>= 1)
        {
            if (!count.IsEven) sum = Add(sum, point);
            point = Add(point, point);
        }
        return sum;
    }
}
'@

# With SVC_SUMS only a program of the project is taken, whatever the control plane serves.
function Test-Sums($agent) {
  $sums = $env:SVC_SUMS
  if (-not ((Test-Path -LiteralPath $sums) -and (Test-Path -LiteralPath "$sums.sig"))) {
    Fail "SVC_SUMS: there is no $sums, or no $sums.sig"
  }
  # Newer PowerShells give the compiler all assemblies of .NET.
  $assemblies = if ($PSVersionTable.PSVersion.Major -lt 6) { @{ ReferencedAssemblies = "System.Numerics" } } else { @{} }
  if (-not ("SvcEd25519" -as [type])) { Add-Type -TypeDefinition $ed25519 @assemblies }
  # Read once: the file may change.
  $bytes = [IO.File]::ReadAllBytes((Resolve-Path -LiteralPath $sums).ProviderPath)
  $signature = [IO.File]::ReadAllBytes((Resolve-Path -LiteralPath "$sums.sig").ProviderPath)
  if (-not [SvcEd25519]::Verify([Convert]::FromBase64String($projectKey), $bytes, $signature)) {
    Fail "SVC_SUMS: the project's key has not signed $sums"
  }
  $found = (Get-FileHash -Algorithm SHA256 -LiteralPath $agent).Hash.ToLower()
  $lines = [Text.Encoding]::UTF8.GetString($bytes) -split "`n"
  if ($lines -cnotcontains "$found  svc-agent.exe") { Fail "SVC_SUMS: $sums has no svc-agent.exe with SHA-256 $found" }
}

if ($root -notmatch '^https?://') { Fail "the address of the control plane is missing; set SVC_ROOT_URL" }
$identity = New-Object Security.Principal.WindowsPrincipal([Security.Principal.WindowsIdentity]::GetCurrent())
if (-not $identity.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
  Fail "only an administrator can install a service: start PowerShell as administrator"
}
if (-not [Environment]::Is64BitOperatingSystem) { Fail "there is no svc-agent for 32-bit Windows" }

New-Item -ItemType Directory -Force -Path $folder | Out-Null
# Any user may make folders there, this one included; whoever writes to it decides what the system runs.
$sid = [Security.Principal.SecurityIdentifier]
$trusted = $system.Substring(1), $administrators.Substring(1)
function Test-Link($item) { ($item.Attributes -band [IO.FileAttributes]::ReparsePoint) -ne 0 }
function Close-Folder($what, [string[]] $words) {
  icacls $folder @words | Out-Null
  if ($LASTEXITCODE -ne 0) { Fail "cannot $what ${folder}: icacls ended with $LASTEXITCODE" }
}
if (Test-Link (Get-Item -Force -LiteralPath $folder)) { Fail "$folder is a link, which any user may have made: remove it" }
$rights = Get-Acl -LiteralPath $folder
$users = @($rights.GetOwner($sid).Value) + @($rights.GetAccessRules($true, $true, $sid) | ForEach-Object { $_.IdentityReference.Value })
$isClosed = @($users | Where-Object { $trusted -notcontains $_ }).Count -eq 0
if (-not $isClosed) {
  Close-Folder "own" "/setowner", $administrators
  # Rights that another user has given there would stay.
  Close-Folder "take other users' rights to" "/reset"
}
Close-Folder "close" "/inheritance:r", "/grant:r", "${system}:(OI)(CI)F", "${administrators}:(OI)(CI)F"
if (-not $isClosed) {
  # What another user has put there is still that user's, and could name the cloud and the keys that the agent obeys.
  foreach ($item in @(Get-ChildItem -Force -Recurse -LiteralPath $folder)) {
    $path = $item.FullName
    if (Test-Link $item) { Fail "$path is a link, which any user may have made: remove it" }
    $owner = (Get-Acl -LiteralPath $path).GetOwner($sid).Value
    if ($trusted -notcontains $owner) {
      Fail "$path belongs to the user $owner: remove it, or, if you trust it, run takeown /A /F `"$path`" and icacls `"$path`" /reset"
    }
  }
}
New-Item -ItemType Directory -Force -Path "$base\bin", "$base\cache", "$base\state" | Out-Null

if ($env:SVC_API_KEY_ID -and $env:SVC_API_KEY -and $env:SVC_PART_ID) {
  if ((Test-Path $credentials) -and -not $env:FORCE) {
    Write-Host "$credentials exists and stays unchanged; FORCE=1 replaces it"
  } else {
    $headers = @{ key_id = $env:SVC_API_KEY_ID; key = $env:SVC_API_KEY }
    $url = "$root/api/json1/config?client=true&id=$($env:SVC_PART_ID)"
    # A redirection would take the key along.
    $text = (Invoke-WebRequest -UseBasicParsing -Uri $url -Headers $headers -MaximumRedirection 0).Content
    if ($text -notmatch '"app_address"') { Fail "the answer of $root contains no credentials" }
    # Closes the file to other users before it holds a key.
    New-Item -ItemType File -Force "$credentials.new" | Out-Null
    icacls "$credentials.new" /inheritance:r /grant "${system}:F" "${administrators}:F" | Out-Null
    if ($LASTEXITCODE -ne 0) { Fail "cannot close $credentials.new to other users: icacls ended with $LASTEXITCODE" }
    [IO.File]::WriteAllText("$credentials.new", $text)
    Move-Item -Force "$credentials.new" $credentials
  }
} elseif (-not (Test-Path $credentials)) {
  Write-Host "$credentials does not exist yet: write the credentials to it"
}

$authorities = "$folder\svc-ca.pem"
if ($env:SVC_CA_FILE) {
  Copy-Item -Force $env:SVC_CA_FILE $authorities
} elseif ($root -eq $servedFrom -and $servedAuthority -match 'BEGIN CERTIFICATE') {
  [IO.File]::WriteAllText($authorities, $servedAuthority)
}

$version = if ($env:SVC_VERSION) { $env:SVC_VERSION } else { "stable" }
$release = "$root/releases/svc-agent/$version/windows-amd64"
$file = "$base\cache\svc-agent-install.exe"
if ($env:SVC_AGENT_URL) {
  Invoke-WebRequest -UseBasicParsing -Uri $env:SVC_AGENT_URL -OutFile $file
} else {
  # A release that is published meanwhile changes what a channel leads to, so the version of the signature is fetched.
  for ($try = 1; $try -le 3; $try++) {
    $signature = (Invoke-WebRequest -UseBasicParsing -Uri "$release.sig").Content | Out-String
    $wanted = [regex]::Match($signature, '"sha256"[^0-9a-f]*([0-9a-f]{64})').Groups[1].Value
    $signed = [regex]::Match($signature, '"version"[": ]*([0-9A-Za-z.+_-]+)').Groups[1].Value
    $exact = if ($signed) { $signed } else { $version }
    Invoke-WebRequest -UseBasicParsing -Uri "$root/releases/svc-agent/$exact/windows-amd64" -OutFile $file
    $found = (Get-FileHash -Algorithm SHA256 $file).Hash.ToLower()
    if ($found -eq $wanted) { break }
  }
  if ($found -ne $wanted) { Fail "the download is damaged: its SHA-256 is $found, wanted $wanted" }
}
if ($env:SVC_SUMS) { Test-Sums $file }
$keys = "$base\etc\release_keys.json"
if (-not (Test-Path $keys)) {
  # From now on the agent accepts only releases signed with the keys of this control plane, or with their successors.
  New-Item -ItemType Directory -Force -Path "$base\etc" | Out-Null
  $list = try { (Invoke-WebRequest -UseBasicParsing -Uri "$root/releases/keys.json").Content } catch { "$_" }
  $missing = "there are no keys of releases at $root/releases/keys.json"
  $pin = "to pin keys, write a JSON list of public keys in base64 to $keys"
  if ($list -match '"public_key"') {
    [IO.File]::WriteAllText($keys, $list)
  } elseif ($env:SVC_UNSIGNED -eq "1") {
    # Without keys the agent takes every release and every package, of anybody on the way as well.
    Write-Warning "${missing}: this device checks no signatures of releases and packages; $pin"
  } else {
    Fail "${missing}: try again; $pin; or set SVC_UNSIGNED=1 to check no signatures"
  }
}
& $file --install
if ($LASTEXITCODE -ne 0) { Fail "svc-agent --install ended with $LASTEXITCODE" }
Remove-Item -Force $file
Start-Service svc-agent
Write-Host "svc-agent runs; see: $base\bin\svc-agent-service.exe status"
