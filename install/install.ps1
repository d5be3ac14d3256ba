# Installs svc-agent as a Windows service; svc-agent then installs and runs svc-server.
#
#   $env:SVC_API_KEY_ID="…"; $env:SVC_API_KEY="…"; $env:SVC_PART_ID="…"; irm http://CLOUD/install.ps1 | iex
#
# SVC_ROOT_URL, SVC_AGENT_URL, SVC_VERSION, SVC_UNSIGNED and FORCE work as in install.sh.
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

function Fail($message) { throw "install.ps1: $message" }

if ($root -notmatch '^https?://') { Fail "the address of the control plane is missing; set SVC_ROOT_URL" }
$identity = New-Object Security.Principal.WindowsPrincipal([Security.Principal.WindowsIdentity]::GetCurrent())
if (-not $identity.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
  Fail "only an administrator can install a service: start PowerShell as administrator"
}
if (-not [Environment]::Is64BitOperatingSystem) { Fail "there is no svc-agent for 32-bit Windows" }

New-Item -ItemType Directory -Force -Path $folder | Out-Null
# Any user may make folders there, this one included; whoever writes to it decides what the system runs.
icacls $folder /setowner $administrators | Out-Null
if ($LASTEXITCODE -ne 0) { Fail "cannot own ${folder}: icacls ended with $LASTEXITCODE" }
icacls $folder /inheritance:r /grant:r "${system}:(OI)(CI)F" "${administrators}:(OI)(CI)F" | Out-Null
if ($LASTEXITCODE -ne 0) { Fail "cannot close $folder to other users: icacls ended with $LASTEXITCODE" }
New-Item -ItemType Directory -Force -Path "$base\bin", "$base\cache", "$base\state" | Out-Null

if ($env:SVC_API_KEY_ID -and $env:SVC_API_KEY -and $env:SVC_PART_ID) {
  if ((Test-Path $credentials) -and -not $env:FORCE) {
    Write-Host "$credentials exists and stays unchanged; FORCE=1 replaces it"
  } else {
    $headers = @{ key_id = $env:SVC_API_KEY_ID; key = $env:SVC_API_KEY }
    $url = "$root/api/json1/config?client=true&id=$($env:SVC_PART_ID)"
    $text = (Invoke-WebRequest -UseBasicParsing -Uri $url -Headers $headers).Content
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
