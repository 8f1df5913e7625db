-- The functions of Lua's base library through which a script catches errors: some travel in a form of the engine's own.
-- `shown` and `plain` turn a caught error into what a script sees; `protected` has the functions that catch.

local shown, plain, protected = ...
local pcall, xpcall, resume = protected.pcall, protected.xpcall, coroutine.resume

local function settle(ok, ...)
  if ok then return true, ... end
  return false, plain((...))
end

local function reveal(ok, ...)
  if ok then return true, ... end
  return false, shown((...))
end

local prelude = {}

function prelude.pcall(...)
  return settle(pcall(...))
end

function prelude.xpcall(f, handler)
  return reveal(xpcall(f, function(failure) return handler(shown(failure)) end))
end

function prelude.resume(...)
  return reveal(resume(...))
end

return prelude
